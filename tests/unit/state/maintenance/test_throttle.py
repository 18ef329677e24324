"""Background work lets the calls pass that a query waits for."""

import os
import threading
import time

import pytest

from hdfsstore.state.maintenance.throttle import Foreground, Stopped, Throttle

LONG = 60.0


def test_idle_work_goes_on_at_once():
    throttle = Throttle(lambda: False, Foreground())
    throttle()
    assert throttle.seconds_waited == 0


def test_work_waits_until_the_last_call_has_ended():
    foreground = Foreground()
    with foreground:
        with foreground:
            assert not foreground.wait_until_idle(0)
        assert foreground.busy
        assert not foreground.wait_until_idle(0)
        waiting = threading.Thread(target=lambda: foreground.wait_until_idle(LONG))
        waiting.start()
    waiting.join(LONG)
    assert not waiting.is_alive()
    assert foreground.wait_until_idle(0)


def test_work_gives_way_to_a_call_and_goes_on_beside_one_that_never_ends():
    """It waits in proportion to what it has done: 20 ms of work are worth 40 ms of waiting."""
    foreground = Foreground()
    throttle = Throttle(lambda: False, foreground)
    with foreground:
        until = time.thread_time() + 0.02
        while time.thread_time() < until:
            pass
        throttle()
        waited = throttle.seconds_waited
        for _ in range(5):
            throttle()
    assert waited >= 0.02
    assert throttle.seconds_waited >= waited


def test_work_that_goes_on_in_another_thread_does_not_wait_for_the_first_ones_sake():
    """Each thread's time counts from zero: the difference of two threads' times means nothing."""
    foreground = Foreground()
    throttle = Throttle(lambda: False, foreground)
    until = time.thread_time() + 0.05
    while time.thread_time() < until:
        pass
    with foreground:
        thread = threading.Thread(target=throttle)
        thread.start()
        thread.join(LONG)
        throttle()
    assert throttle.seconds_waited == 0


def test_work_stops_when_told():
    with pytest.raises(Stopped):
        Throttle(lambda: True, Foreground())()


def test_a_call_that_raises_has_ended():
    foreground = Foreground()
    with pytest.raises(KeyError), foreground:
        raise KeyError
    assert not foreground.busy


def test_a_forked_child_does_not_wait_for_its_parents_calls():
    from hdfsstore.state.maintenance.throttle import foreground

    with foreground:
        child = os.fork()
        if child == 0:
            os._exit(1 if foreground.busy else 0)
        assert os.waitpid(child, 0)[1] == 0
    assert not foreground.busy
