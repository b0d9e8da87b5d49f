"""Seeded simulation of the real service in virtual time, with faults and an independent check of invariants.

The safety rules, which hold at all times:
- S1: the first binding of a gang is sent only when its whole minimum may bind; no gang stays partly bound for long.
- S2a: no node holds more than it has. S2b: what was bound stays charged until it is gone, and nothing else does.
- S3: writes have preconditions, resizes keep the job's bounds, and a shrunk job does not grow before its cool-down.
- S4: of a job only workers, suspension and annotations are written; pods are deleted only of gangs that are not whole.
- S5: no pod of a rejected job is bound.
- S6: a pod is gone for a process only when it is gone, and what a process knows of a pod never gets older.
- S7: a pod is bound once, and bind answers success exactly where the pod is on that node.
- S8: only the replica that the Lease names writes, and the Lease is taken only after it has run out.
- S9: a ledger rebuilt from the API equals the running one, and a policy's final decisions outlive a restart.
- S11: a member is bound to its planned node; pods are patched, and reports accepted, only as the protocol says.
- S12: pods and jobs that did not opt in are never written, and are scheduled as if Kohort were not there.
- S13: a job whose bounds cannot be read is not resized.
- S14: no window, plan or held bind outlives its deadline.
- S15: no error is logged, and no task dies unnoticed.
- S16: the translator counts no pod that the ledger does not have.
- S17, S18: a process does not act against what its own watch has shown, and hears what kube-scheduler's plugins refuse.

The liveness rules, which hold in the calm after the last fault:
- L1: every job that can run ends. L3: no job is resized back and forth. L5: all replicas become ready and one leads.
- L7: filter is soon called for members of a gang with room. L8: a Deployment loses the worker that the ledger takes.
- L9: a job whose writes admission always refuses shows the reason.
"""
