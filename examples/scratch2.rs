use ctxsim::session::compile::*;
fn main(){
  let models=ctxsim::provider::Models::builtin().unwrap();
  for f in std::env::args().skip(1){
    let r=ctxsim::ingest::read(std::io::BufReader::new(std::fs::File::open(&f).unwrap()), std::path::Path::new(&f), &Default::default()).unwrap();
    for rec in r { 
      let ctxsim::ingest::Recording::Transcript(t)=rec else {continue};
      let s0=compile(&t,&CompileOptions::default());
      let v=s0.view(RecordedCompactions::Undo);
      println!("{} {}", f, v.id);
      for e in &v.events { println!("   event {:?}",e); }
        let model=models.resolve("claude-opus-5-5").unwrap().model;
        let s=v.scaled_to(model.tokenizer);
          let spec:ctxsim::policy::PolicySpec="none".parse().unwrap();
          let st=spec.load(&[],&[]).unwrap().strategy(model,&models).unwrap();
          let mut rec=ctxsim::sim::FullRecorder::default();
          let _=ctxsim::sim::run(&s,&st,model,&Default::default(),&mut Default::default(),&mut rec);
          for e in &rec.events { println!("   sim {:?}",e); }
    }
  }
}
