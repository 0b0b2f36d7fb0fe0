input()
print('{"i":0,"printed":"OAo=","status":0}')
