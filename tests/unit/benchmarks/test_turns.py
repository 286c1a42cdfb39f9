from benchmarks.rig import by_turns


def test_turns_alternate_and_keep_their_pairs() -> None:
    order: list[str] = []

    def run(name: str) -> int:
        order.append(name)
        return len(order)

    product, baseline = by_turns(lambda: run("p"), lambda: run("b"), turns=3)

    assert order == ["b", "p", "p", "b", "b", "p"]
    assert (product, baseline) == ([2, 3, 6], [1, 4, 5])
