//! What a strategy goes through for each request does not grow with the session: counted in blocks, which the
//! library does where debug assertions are on.

use ctxsim::generate::ConstantGrowth;
use ctxsim::policy::interpreter::Interpreter;
use ctxsim::policy::occasion::{Occasion, Stopped};
use ctxsim::policy::plan::{Ingest, Plan};
use ctxsim::policy::strategy::{Hook, Hooks};
use ctxsim::policy::view::View;
use ctxsim::policy::{Policy, PolicySpec, preset_names};
use ctxsim::provider::Models;
use ctxsim::session::Session;
use ctxsim::sim::{NoRecorder, RunOptions, Scratch, Summary, run_policy};

use crate::policy_support::with_human_turns;
use crate::presets::typed;

/// A policy, with a rule behind its own that only looks at how much was gone through.
struct Watched<'p> {
    inner: Interpreter<'p>,
    blocks: u64,
}

impl<'p> Policy<'p> for Watched<'p> {
    fn rule_count(&self) -> usize {
        self.inner.rule_count() + 1
    }

    fn rule_id(&self, rule: usize) -> &str {
        if rule < self.inner.rule_count() { self.inner.rule_id(rule) } else { "watch" }
    }

    fn hooks(&self) -> Hooks {
        self.inner.hooks().with(Hook::Request)
    }

    fn at_tool_result(&mut self, rule: usize, view: &View<'_>, result: u32) -> Option<Ingest> {
        if rule < self.inner.rule_count() { self.inner.at_tool_result(rule, view, result) } else { None }
    }

    fn begin(&mut self, occasion: &Occasion) {
        self.inner.begin(occasion);
    }

    fn at_hook(&mut self, rule: usize, occasion: &Occasion, view: &View<'_>) -> Option<Plan<'p>> {
        if rule < self.inner.rule_count() {
            return self.inner.at_hook(rule, occasion, view);
        }
        self.blocks = view.work.blocks();
        None
    }

    fn applied(&mut self, rule: usize, occasion: &Occasion, view: &View<'_>) -> Option<Stopped> {
        self.inner.applied(rule, occasion, view)
    }

    fn failed(&mut self, rule: usize) {
        self.inner.failed(rule);
    }
}

/// Blocks gone through in a run of `preset` over `session`, by an agent that takes its window for 200,000 tokens
/// and never meets the end of the real one.
fn work(models: &Models, preset: &str, session: &Session) -> (u64, Summary) {
    let typed = typed(preset);
    let separator = if typed.contains(':') { ',' } else { ':' };
    let spec: PolicySpec = format!("{typed}{separator}believed_window_tokens=200000").parse().unwrap();
    let model = models.get("endless").unwrap();
    let strategy = spec.load(&[], &[]).unwrap().strategy(model, models).unwrap();
    let mut policy = Watched { inner: Interpreter::new(&strategy, session), blocks: 0 };
    let (options, scratch) = (RunOptions::default(), &mut Scratch::default());
    let summary = run_policy(session, &strategy, &mut policy, model, &options, scratch, &mut NoRecorder);
    (policy.blocks, summary)
}

fn models() -> Models {
    let mut models = Models::builtin().unwrap();
    let text = "[[model]]\nid = \"endless\"\nlike = \"claude-opus-5\"\nwindow_tokens = 1000000000\n";
    models.add_toml(text, "the test's model").unwrap();
    models
}

fn growth(requests: u32, thinking_tokens: u32, turn_every: usize) -> Session {
    let growth = ConstantGrowth {
        requests,
        thinking_tokens,
        text_tokens: 20,
        result_tokens: 400,
        result_utf16: 1_200,
        model: "claude-opus-5".to_owned(),
        ..ConstantGrowth::default()
    };
    with_human_turns(growth.session(), turn_every)
}

#[test]
fn five_times_the_requests_are_five_times_the_work() {
    let models = models();
    let shapes = [(40, 20), (0, 100_000)];
    let sessions = shapes.map(|(thinking, every)| [2_000, 10_000].map(|n| growth(n, thinking, every)));
    let mut acted = 0;
    let mut wrong = Vec::new();
    for name in preset_names() {
        for (shape, [short, long]) in shapes.iter().zip(&sessions) {
            let (few, _) = work(&models, name, short);
            let (many, summary) = work(&models, name, long);
            assert_eq!((summary.requests, summary.violations), (10_000, 0), "{name}");
            acted += u64::from(summary.passes + summary.compactions > 0);
            // Passes that fall before the end of one session and not of the other are the noise.
            if many > few * 11 / 2 {
                wrong.push(format!(
                    "{name} {shape:?}: {few} and {many}, {:.1} times",
                    many as f64 / few as f64
                ));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(acted > 50, "only {acted} did anything");
}
