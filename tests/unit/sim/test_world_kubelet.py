"""The simulated kubelets start and terminate pods, and lose nodes."""

from lab.sim.objects import PodObject
from tests.unit.sim.worlds import PENDING, RUNNING, bind_all, done, pod, running, slots, spec, submitted, world


def test_a_bound_pod_starts_after_the_start_up_time() -> None:
    made = submitted(spec(workers=1), start_seconds=3.0)
    bind_all(made)
    made.advance(2.9)
    assert slots(made) == {"ps-0": PENDING, "worker-0": PENDING}
    made.advance(3.0)
    assert slots(made) == {"ps-0": RUNNING, "worker-0": RUNNING}
    assert pod(made).started == 3.0


def test_a_deleted_pod_holds_its_room_until_it_is_gone() -> None:
    made = world(terminate_seconds=2.0)
    made.create_pod(PodObject("", "default", "alone"))
    made.bind("default", "alone", "n1")
    made.advance(5.0)
    made.delete_pod("default", "alone")
    made.advance(6.9)
    assert (pod(made, "alone").holds_room, pod(made, "alone").works) == (True, False)
    made.advance(7.0)
    assert made.store.pods == {}


def test_a_pod_without_a_node_is_gone_at_once() -> None:
    made = world()
    made.create_pod(PodObject("", "default", "alone"))
    made.delete_pod("default", "alone")
    assert made.store.pods == {}


def test_a_pod_deleted_before_it_started_never_starts() -> None:
    made = world(start_seconds=5.0, terminate_seconds=1.0)
    made.create_pod(PodObject("", "default", "alone"))
    made.bind("default", "alone", "n1")
    made.delete_pod("default", "alone")
    made.advance(20.0)
    assert made.store.pods == {}


def test_a_lost_node_stops_the_work_and_evicts_after_the_tolerated_time() -> None:
    made = running(spec(workers=1), eviction_seconds=300.0)
    made.advance(11.0)
    made.fail_node("n1")
    made.advance(300.0)
    assert done(made) == 10.0
    assert slots(made) == {"ps-0": RUNNING, "worker-0": RUNNING}
    made.advance(1000.0)
    assert slots(made) == {"ps-0": "going", "worker-0": "going"}


def test_a_node_that_comes_back_in_time_keeps_its_pods_and_the_work_goes_on() -> None:
    made = running(spec(workers=1))
    made.advance(11.0)
    made.fail_node("n1")
    made.advance(100.0)
    made.heal_node("n1")
    made.advance(500.0)
    assert done(made) == 410.0


def test_a_node_that_comes_back_late_lets_its_evicted_pods_go() -> None:
    made = running(spec(workers=1), eviction_seconds=10.0)
    made.fail_node("n1")
    made.advance(100.0)
    made.heal_node("n1")
    made.advance(102.0)
    assert slots(made) == {"ps-0": PENDING, "worker-0": PENDING}


def test_the_pods_of_a_deleted_node_are_collected_and_replaced() -> None:
    made = running(spec(workers=1), collect_seconds=20.0)
    made.remove_node("n1")
    made.advance(20.9)
    assert slots(made) == {"ps-0": RUNNING, "worker-0": RUNNING}
    made.advance(21.0)
    assert slots(made) == {"ps-0": PENDING, "worker-0": PENDING}


def test_a_pod_bound_to_a_node_that_does_not_exist_is_collected() -> None:
    made = world(collect_seconds=20.0)
    made.create_pod(PodObject("", "default", "alone"))
    made.bind("default", "alone", "nowhere")
    made.advance(20.0)
    assert made.store.pods == {}
