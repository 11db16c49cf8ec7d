import logging,sys; logging.getLogger("fencelock").disabled=True
from tests.sim.harness import Run
from tests.sim.plan import draw_plan
from tests.sim.runs import told
import tests.sim.service as S
backend,climate,seed,only,t0,t1=sys.argv[1:7]
lines=[]
plan=draw_plan(climate,int(seed)).only(only.split(","))
run=Run(backend,plan)
sim=run.simulation
def out(*w): lines.append((sim.now,"   "+" ".join(map(str,w))))
serve=S.ServiceNode._serve
async def traced(self,c,sent):
    out(self.world.name,"<-",id(c)%1000 if c else "COPY",sent.target,(sent.body or b"")[:170])
    await serve(self,c,sent)
    out(self.world.name,"done",id(c)%1000 if c else "COPY",sent.target, "gone" if c not in self._connections else "")
S.ServiceNode._serve=traced
heard=S.SimConnection._heard
def h(self,r):
    out("  ->",self._world.name,id(self._link)%1000,r.status,r.body[:200]); heard(self,r)
S.SimConnection._heard=h
from tests.sim.backends import Remote
call=Remote._call
for n in ("acquire","release","withdraw","renew","watch","unwatch"):
    f=getattr(Remote,n)
    def w(f=f,n=n):
        async def g(self,*a):
            out(self._host.name,"store?",n, str(a[0])[:60])
            try: r=await f(self,*a)
            except BaseException as e: out(self._host.name,"store!",n,type(e).__name__); raise
            out(self._host.name,"store=",n,str(r)[:110]); return r
        return g
    setattr(Remote,n,w())
run.play()
for e in run.history: lines.append((e.at,told(e)))
lines.sort(key=lambda x:x[0])
for at,l in lines:
    if float(t0)<=at<=float(t1): print(f"{at:9.6f}",l)
