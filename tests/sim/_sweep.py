import logging,sys,traceback; logging.getLogger("fencelock").disabled=True
from collections import Counter
from tests.sim.harness import Run
from tests.sim.plan import draw_plan, CLIMATES
backend, recipe, a, b = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
climates = sys.argv[5:] or list(CLIMATES)
tot=Counter()
for c in climates:
    for s in range(a,b):
        tot["runs"]+=1
        try:
            r=Run(backend,draw_plan(c,s,recipe)).play()
            v=r.verdict().violations
            tot["steps"]+=r.simulation.steps; tot["grants"]+=r.grants
            if v:
                tot["broken"]+=1
                print(c,s,v[0].checker,v[0].message[:200],flush=True)
        except BaseException as e:
            tot["errors"]+=1
            tb=traceback.extract_tb(e.__traceback__)
            print(c,s,"ERROR",type(e).__name__,str(e)[:150],getattr(e,'__notes__',''),[f"{f.filename.split('/')[-1]}:{f.lineno}" for f in tb[-4:]],flush=True)
            if isinstance(e,KeyboardInterrupt): raise
print(backend,recipe,dict(tot))
