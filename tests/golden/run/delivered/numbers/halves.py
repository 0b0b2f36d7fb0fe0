def halves(number):
    return (number / 2, number / 2)
