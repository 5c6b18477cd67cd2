//! `ctxsim run`.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use ctxsim::config::scenario::{AccountSpec, BindingErrorSpec, CompactionsSpec, Scenario};
use ctxsim::report::ResultSet;
use ctxsim::report::requests::RunRecord;
use ctxsim::sweep::Control;

use super::args::{
    AccountKind, BindingError, Compactions, Format, InputArgs, OutputArgs, ReplayArgs, SessionArgs, jobs,
};
use super::exit::{self, Failure, Outcome};
use super::output::Terminal;
use super::pictures::Pictures;
use super::resolve::{CacheArgs, Replay};
use super::resume::{Earlier, ResumeArgs};
use super::study::{self, Files, Study};
use super::{explain, load, progress, typed};

#[derive(Debug, Args)]
pub struct RunArgs {
    /// Scenario files
    #[arg(value_name = "SCENARIO", required = true)]
    pub scenarios: Vec<PathBuf>,
    /// Threads; 0 means one per core
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = jobs)]
    pub jobs: usize,
    /// Only this part of the sessions, by id: hash:i/n, 1 <= i <= n
    #[arg(long, value_name = "hash:i/n")]
    pub shard: Option<ctxsim::sweep::Shard>,
    /// Stop at the first bad file, with exit code 3
    #[arg(long)]
    pub strict: bool,
    #[command(flatten)]
    pub output: OutputArgs,
    #[command(flatten)]
    pub resume: super::resume::ResumeArgs,
    /// Tell the story of this session of the scenario (its id, or how it begins), request by request; with -v also where
    /// nothing happened
    #[arg(long, value_name = "SESSION", help_heading = "Output")]
    pub explain: Option<String>,
}

/// Folder of reports, below the current one.
const REPORTS: &str = "reports";

/// A scenario with everything in it resolved.
struct Resolved {
    name: String,
    path: PathBuf,
    out: PathBuf,
    scenario: Scenario,
    replay: Replay,
    load: load::LoadOptions,
}

/// Runs the command: first every scenario is checked, then they run one after the other.
pub fn run(args: &RunArgs, terminal: &Terminal) -> Outcome {
    if args.explain.is_some() && args.scenarios.len() > 1 {
        let message = "--explain tells of a session of one scenario; name only that scenario";
        return Err(Failure::new(exit::USAGE, message));
    }
    let resolved =
        args.scenarios.iter().map(|path| resolve(path, args, terminal)).collect::<Result<Vec<_>, _>>()?;
    let control = progress::control(terminal);
    let many = resolved.len() > 1;
    let mut code = exit::DONE;
    for one in &resolved {
        if many && args.output.format == Format::Table {
            terminal.print(&format!("# {}\n\n", one.name))?;
        }
        let output = &one.scenario.output;
        let mut files = Files::open(Some(&one.out), args.output.force, None)?;
        files.requests = files.requests.filter(|_| output.requests);
        files.parquet = files.parquet.filter(|_| output.requests);
        files.events = files.events.filter(|_| output.events);
        files.pictures = (output.plots > 0).then(|| Pictures::new(output.plots, output.headline.clone()));
        let study = one.study(args, &control);
        let earlier = study.earlier(args.resume, Some(&one.out), terminal)?;
        let corpus = load::load(&one.load, &control, terminal)?;
        let wanted = explain::Wanted { session: args.explain.as_deref(), format: args.output.format };
        let results = explain::run(&study, &corpus, &earlier, files, wanted, terminal)?;
        study::print(&results, args.output.format, terminal)?;
        code = code.max(study::end(&results, &corpus, terminal));
        if control.stopped() {
            break;
        }
    }
    Ok(code)
}

/// Runs a scenario without writing anything: its results, the rules of its gate, and the exit code of the
/// run. `watch` sees every cell with its requests.
///
/// # Errors
/// As those of `ctxsim run`.
pub fn results(
    path: &Path,
    jobs: usize,
    watch: &mut dyn FnMut(&RunRecord<'_>),
    terminal: &Terminal,
) -> Result<(ResultSet, Vec<String>, u8), Failure> {
    let output = OutputArgs::default();
    let (scenarios, resume) = (vec![path.to_owned()], ResumeArgs::default());
    let args = RunArgs { scenarios, jobs, shard: None, strict: false, output, resume, explain: None };
    let one = resolve(path, &args, terminal)?;
    let control = progress::control(terminal);
    let corpus = load::load(&one.load, &control, terminal)?;
    let study = one.study(&args, &control);
    let results = study::run(&study, &corpus, &Earlier::default(), Files::default(), terminal, Some(watch))?;
    let code = study::end(&results, &corpus, terminal);
    Ok((results, one.scenario.gate.rules, code))
}

impl Resolved {
    fn study<'a>(&'a self, args: &RunArgs, control: &'a Arc<Control>) -> Study<'a> {
        let session = session_args(&self.scenario, args);
        let compactions = compactions(self.scenario.options.recorded_compactions);
        let mut study = Study::typed("run", &self.replay, &session, compactions, control);
        study.recipe.scenario = Some(self.name.clone());
        study.command_line = typed::words_for(&self.path);
        study.description = &self.scenario.description;
        study
    }
}

fn resolve(path: &Path, args: &RunArgs, terminal: &Terminal) -> Result<Resolved, Failure> {
    let scenario = Scenario::read(path)?;
    let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let out = match &args.output.out {
        Some(dir) if args.scenarios.len() > 1 => dir.join(&name),
        Some(dir) => dir.clone(),
        None => Path::new(REPORTS).join(&name),
    };
    let in_scenario =
        |e: Failure| Failure { code: e.code, error: e.error.context(path.display().to_string()) };
    let replay = Replay::resolve(&replay_args(&scenario), terminal).map_err(in_scenario)?;
    let input = input_args(&scenario, args.strict);
    let view = compactions(scenario.options.recorded_compactions);
    let load = load::LoadOptions::resolve(&input, &session_args(&scenario, args), Some(view))
        .map_err(in_scenario)?;
    Ok(Resolved { name, path: path.to_owned(), out, scenario, replay, load })
}

fn input_args(scenario: &Scenario, strict: bool) -> InputArgs {
    InputArgs {
        inputs: scenario.corpus.inputs.clone(),
        input_format: scenario.corpus.input_format.clone(),
        since: scenario.corpus.since.clone(),
        project: scenario.corpus.project.clone(),
        strict,
    }
}

fn session_args(scenario: &Scenario, args: &RunArgs) -> SessionArgs {
    SessionArgs { tokens: scenario.options.tokens.clone(), shard: args.shard, jobs: args.jobs }
}

fn replay_args(scenario: &Scenario) -> ReplayArgs {
    let options = &scenario.options;
    let paths = |names: &[String]| names.iter().map(PathBuf::from).collect();
    ReplayArgs {
        policies: scenario.policies.clone(),
        set: options.set.clone(),
        agent_config: paths(&options.agent_config),
        models: scenario.models.clone(),
        models_file: paths(&options.models_file),
        price_date: options.price_date.clone(),
        service: options.service.into(),
        account: match options.account {
            AccountSpec::Enforced => AccountKind::Enforced,
            AccountSpec::Unenforced => AccountKind::Unenforced,
        },
        on_binding_error: options.on_binding_error.map(|e| match e {
            BindingErrorSpec::Strip => BindingError::Strip,
            BindingErrorSpec::DropBlock => BindingError::DropBlock,
            BindingErrorSpec::Fail => BindingError::Fail,
        }),
        seed: options.seed,
        cache: CacheArgs { shared_cache: options.shared_cache },
    }
}

fn compactions(spec: CompactionsSpec) -> Compactions {
    match spec {
        CompactionsSpec::Undo => Compactions::Undo,
        CompactionsSpec::Keep => Compactions::Keep,
    }
}
