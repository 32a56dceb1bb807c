"""Settings that were composed before are composed no more, and nothing else is left out."""

import pytest
from composed_once import compose_once
from hydra.core.config_store import ConfigStore


@pytest.fixture
def calls(monkeypatch):
    """What was composed; the result is the line of settings and what was registered."""
    made = []

    def compose(name, overrides):
        made.append(overrides)
        return {"lines": list(overrides), "groups": sorted(ConfigStore.instance().repo)}

    monkeypatch.setattr(ConfigStore.instance(), "repo", {"model": {"a.yaml": object()}})
    return compose_once(compose), made


def test_the_same_settings_give_a_copy(calls):
    compose, made = calls
    first = compose("config", overrides=["model.a=1"])
    first["lines"].append("changed by who asked")
    assert compose("config", overrides=["model.a=1"])["lines"] == ["model.a=1"]
    assert compose("config", overrides=["model.a=2"])["lines"] == ["model.a=2"]
    assert len(made) == 2


def test_what_is_registered_since_is_seen(calls):
    compose, made = calls
    nodes = ConfigStore.instance().repo
    compose("config", overrides=[])
    nodes["task"] = {"a.yaml": object()}
    assert compose("config", overrides=[])["groups"] == ["model", "task"]
    nodes["model"]["a.yaml"] = object()
    compose("config", overrides=[])
    assert len(made) == 3


def test_the_choice_of_a_group_by_the_environment_is_made_again(calls):
    compose, made = calls
    for line in ("task=${oc.env:HOME}", "task.a=${oc.env:HOME}"):
        for _ in range(2):
            compose("config", overrides=[line])
    assert len(made) == 3
