"""Background work lets the calls pass that a query waits for."""

import os
import threading

import pytest

from hdfsstore.state.pace import Foreground, Pace, Stopped

LONG = 60.0


def test_idle_work_goes_on_at_once():
    pace = Pace(lambda: False, Foreground(), patience=LONG)
    pace()
    assert pace.seconds_waited == 0


def test_work_waits_until_the_last_call_has_ended():
    foreground = Foreground()
    pace = Pace(lambda: False, foreground, patience=LONG)
    passed = threading.Event()
    with foreground:
        with foreground:
            worker = threading.Thread(target=lambda: (pace(), passed.set()))
            worker.start()
            assert not passed.wait(0.02)
        assert foreground.busy
        assert not passed.wait(0.02)
    assert passed.wait(LONG)
    worker.join(LONG)
    assert not foreground.busy
    assert pace.seconds_waited > 0


def test_work_makes_progress_beside_calls_that_never_end():
    foreground = Foreground()
    pace = Pace(lambda: False, foreground, patience=0.001)
    with foreground:
        for _ in range(5):
            pace()
    assert pace.seconds_waited >= 0.005


def test_work_stops_when_told():
    with pytest.raises(Stopped):
        Pace(lambda: True, Foreground())()


def test_a_call_that_raises_has_ended():
    foreground = Foreground()
    with pytest.raises(KeyError), foreground:
        raise KeyError
    assert not foreground.busy


def test_a_forked_child_does_not_wait_for_its_parents_calls():
    from hdfsstore.state.pace import foreground

    with foreground:
        child = os.fork()
        if child == 0:
            os._exit(1 if foreground.busy else 0)
        assert os.waitpid(child, 0)[1] == 0
    assert not foreground.busy
