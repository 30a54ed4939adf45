import copy
import time
from contextlib import contextmanager
from types import SimpleNamespace

import pytest
import torch

from hf_vanilla_transformer.data.encoding import EncodedPairs
from hf_vanilla_transformer.training import cpu
from hf_vanilla_transformer.training.cpu import fast_cpu_products, fastest_threads, training_threads


@pytest.fixture
def four_threads(monkeypatch):
    """Four threads to choose from, whatever the machine has."""
    now = [4]
    monkeypatch.setattr(torch, "get_num_threads", lambda: now[0])
    monkeypatch.setattr(torch, "set_num_threads", lambda number: now.__setitem__(0, number))
    return now


@pytest.mark.parametrize("best", [1, 2, 4])
def test_the_fastest_number_of_threads_is_used_and_the_old_one_restored(four_threads, best):
    def work():
        time.sleep(0.001 if four_threads[0] == best else 0.01)

    with fastest_threads(work) as chosen:
        assert (chosen, four_threads[0]) == (best, best)
    assert four_threads[0] == 4


def test_with_one_thread_there_is_nothing_to_try(four_threads):
    four_threads[0] = 1
    with fastest_threads(lambda: pytest.fail("no trial needed")) as chosen:
        assert chosen == 1


@pytest.mark.parametrize("processes", [1, 2])
def test_threads_are_tried_with_the_model_in_one_process_alone(
    monkeypatch, tiny_model, four_threads, processes
):
    tried = []

    @contextmanager
    def note(work):
        work()
        tried.append(work)
        yield

    monkeypatch.setattr(cpu, "fastest_threads", note)
    model = tiny_model().train()
    before = copy.deepcopy(model.state_dict())
    pairs = EncodedPairs.from_ids([[4, 5, 3]], [[6, 3]])
    where = SimpleNamespace(device=torch.device("cpu"), num_processes=processes)
    with training_threads(model, pairs, accelerator=where):
        assert len(tried) == (processes == 1)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert all(parameter.grad is None for parameter in model.parameters())


def test_a_resumed_run_keeps_its_number_of_threads(monkeypatch, tiny_model, four_threads):
    monkeypatch.setattr(cpu, "fastest_threads", lambda work: pytest.fail("no trial wanted"))
    pairs = EncodedPairs.from_ids([[4, 5, 3]], [[6, 3]])
    where = SimpleNamespace(device=torch.device("cpu"), num_processes=1)
    with training_threads(tiny_model(), pairs, accelerator=where, threads=2):
        assert four_threads[0] == 2
    assert four_threads[0] == 4


def test_slow_work_is_not_repeated(four_threads, monkeypatch):
    now, runs = [0.0], []
    monkeypatch.setattr(cpu.time, "monotonic", lambda: now[0])

    def work():
        runs.append(four_threads[0])
        now[0] += 10 / four_threads[0]

    with fastest_threads(work) as chosen:
        assert chosen == 4
    assert runs == [1, 1, 2, 2, 4, 4]


def test_the_precision_of_products_is_restored_even_after_an_error(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    before = torch.get_float32_matmul_precision()
    seen = []

    def fail():
        with fast_cpu_products():
            seen.append(torch.get_float32_matmul_precision())
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert seen == ["medium"]
    assert torch.get_float32_matmul_precision() == before


def test_a_gpu_keeps_its_precision(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    before = torch.get_float32_matmul_precision()
    with fast_cpu_products():
        assert torch.get_float32_matmul_precision() == before
