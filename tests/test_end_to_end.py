def test_x(toy):
    print(toy)
