print 2 * int(raw_input())
