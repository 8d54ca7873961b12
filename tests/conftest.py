import pytest

from erne_server import Server


@pytest.fixture(scope="session")
def mini():
    """One server of the embedded erne-mini, shared by the tests that only ask it questions."""
    with Server() as server:
        yield server


@pytest.fixture(scope="session")
def mini_exact():
    """The same in float32 arithmetic: its greedy answers are the expected ones, however close a choice is."""
    with Server("--activation-dtype", "f32") as server:
        yield server
