"""How much water the garden needs."""

LITRES_PER_PLANT = {"tomato": 2.0, "bean": 0.5, "pumpkin": 3.0}


def litres(plants: dict[str, int]) -> float:
    """The litres for so many plants of each kind; unknown kinds need one litre."""
    return sum(LITRES_PER_PLANT.get(kind, 1.0) * count for kind, count in plants.items())


if __name__ == "__main__":
    print(litres({"tomato": 4, "bean": 12}))
