"""Readings of methods: the hyper-parameters of a paper or of its code."""

from support.every import check_every

from jaxproto import config
from jaxproto.config.presets import DATASETS
from jaxproto.papers.variants import READINGS


def test_every_reading_holds_for_every_data_set():
    def check(name, reading, dataset):
        c = config.load(f"configs/{name}.py:{dataset},{reading}")
        config.check(c)
        if dataset in ("digits", "cifar10"):
            before = config.load(f"configs/{name}.py:{reading},{dataset}")
            assert config.flatten(before) == config.flatten(c)

    there = [(name, reading) for name, known in READINGS.items() for reading in known]
    assert {reading for _, reading in there} == {"paper", "code"}
    check_every([(*pair, dataset) for pair in there for dataset in DATASETS], check)
