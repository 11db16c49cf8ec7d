import logging,sys; logging.getLogger("fencelock").disabled=True
from tests.sim.runs import examine, Broken
try:
    examine(sys.argv[1], sys.argv[2], int(sys.argv[3]), recipe=sys.argv[4] if len(sys.argv)>4 else "lock")
    print("clean")
except Broken as b: print(b)
