use ctxsim::session::compile::*;
fn main(){
  let models=ctxsim::provider::Models::builtin().unwrap();
  for f in std::env::args().skip(1){
    let r=ctxsim::ingest::read(std::io::BufReader::new(std::fs::File::open(&f).unwrap()), std::path::Path::new(&f), &Default::default()).unwrap();
    for rec in r { 
      let ctxsim::ingest::Recording::Transcript(t)=rec else {continue};
      let s0=compile(&t,&CompileOptions::default());
      let v=s0.view(RecordedCompactions::Undo);
      for m in ["own","claude-opus-5-5"] {
        let id= if m=="own" {v.model.clone()} else {m.to_string()};
        let Ok(model)=models.resolve(&id) else {continue}; let model=model.model;
        let s=v.scaled_to(model.tokenizer);
        for p in ["none","arcturn","arcturn-0.6"] {
          let spec:ctxsim::policy::PolicySpec=p.parse().unwrap();
          let st=spec.load(&[],&[]).unwrap().strategy(model,&models).unwrap();
          let mut rec=ctxsim::sim::FullRecorder::default();
          let sum=ctxsim::sim::run(&s,&st,model,&Default::default(),&mut Default::default(),&mut rec);
          let mut bad=0; let mut cmp=0;
          if p=="none" && m=="own" { for (row,step) in rec.requests.iter().zip(&s.steps) { if let Some(u)=step.recorded { cmp+=1; if u.prompt_tokens()!=row.usage.prompt_tokens() {bad+=1; if bad<3 {println!("   req {} rec {} sim {}",row.request,u.prompt_tokens(),row.usage.prompt_tokens());}} } } }
          println!("{:40} {:28} {:12} req {} hit {:.4} cost {:.3} off {} pass {} elided {} rej {} withheld {} comp {} viol {} stop {:?} bad {}/{} miss {:?}",f.rsplit('/').next().unwrap(),model.id,p,sum.requests,sum.usage.cache_read_tokens as f64/sum.usage.prompt_tokens() as f64,sum.cost.total() as f64/1e12,sum.offloads,sum.passes,sum.elided_results,sum.binding_rejections,sum.withheld_thinking_blocks,sum.compactions,sum.violations,sum.stop_reason,bad,cmp, ctxsim::cause::Cause::ALL.iter().filter(|c|sum.miss(**c).requests>0).map(|c|(c.name(),sum.miss(*c).requests,sum.miss(*c).tokens)).collect::<Vec<_>>());
        }
      }
    }
  }
}
