from lab.sim.engine import Engine


def ran(engine: Engine[str], until: float) -> list[tuple[float, str]]:
    return list(engine.due(until))


def test_events_run_by_time_then_rank_then_order_of_scheduling() -> None:
    engine: Engine[str] = Engine()
    for at, rank, name in [(2.0, 0, "e"), (1.0, 1, "c"), (1.0, 0, "a"), (1.0, 1, "d"), (1.0, 0, "b")]:
        engine.schedule(at, name, rank)
    assert [name for _, name in ran(engine, 5.0)] == ["a", "b", "c", "d", "e"]


def test_events_need_not_be_comparable() -> None:
    engine: Engine[object] = Engine()
    first, second = object(), object()
    engine.schedule(1.0, first)
    engine.schedule(1.0, second)
    assert [event for _, event in engine.due(1.0)] == [first, second]


def test_what_is_due_includes_that_very_instant_and_nothing_after() -> None:
    engine: Engine[str] = Engine()
    engine.schedule(1.0, "now")
    engine.schedule(1.0000001, "later")
    assert ran(engine, 1.0) == [(1.0, "now")]
    assert engine.next_time() == 1.0000001


def test_an_event_scheduled_by_an_event_runs_in_the_same_call_if_it_is_due() -> None:
    engine: Engine[str] = Engine()
    engine.schedule(1.0, "first")
    seen = []
    for at, name in engine.due(3.0):
        seen.append(name)
        if name == "first":
            engine.schedule(at, "at once", rank=0)
            engine.schedule(at + 1, "second")
            engine.schedule(at + 5, "not yet")
    assert seen == ["first", "at once", "second"]


def test_a_cancelled_event_never_runs_and_is_not_the_next() -> None:
    engine: Engine[str] = Engine()
    ticket = engine.schedule(1.0, "no")
    engine.schedule(2.0, "yes")
    engine.cancel(ticket)
    engine.cancel(ticket)
    assert engine.next_time() == 2.0
    assert ran(engine, 9.0) == [(2.0, "yes")]
    assert engine.next_time() is None
