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
    /// By request: blocks gone through until then.
    blocks: Vec<u64>,
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
        if occasion.hook == Hook::Request {
            self.blocks.push(view.work.blocks());
        }
        None
    }

    fn applied(&mut self, rule: usize, occasion: &Occasion, view: &View<'_>) -> Option<Stopped> {
        self.inner.applied(rule, occasion, view)
    }

    fn failed(&mut self, rule: usize) {
        self.inner.failed(rule);
    }
}

/// Blocks gone through until each request, by an agent that takes its window for 200,000 tokens and never meets
/// the end of the real one.
fn work(models: &Models, preset: &str, session: &Session) -> (Vec<u64>, Summary) {
    let typed = typed(preset);
    let separator = if typed.contains(':') { ',' } else { ':' };
    let spec: PolicySpec = format!("{typed}{separator}believed_window_tokens=200000").parse().unwrap();
    let model = models.get("endless").unwrap();
    let strategy = spec.load(&[], &[]).unwrap().strategy(model, models).unwrap();
    let mut policy = Watched { inner: Interpreter::new(&strategy, session), blocks: Vec::new() };
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
        text_tokens: 200,
        result_tokens: 400,
        result_utf16: 1_200,
        model: "claude-opus-5".to_owned(),
        ..ConstantGrowth::default()
    };
    with_human_turns(growth.session(), turn_every)
}

#[test]
fn later_requests_are_no_more_work_than_earlier_ones() {
    let models = models();
    let wrong_in = |thinking: u32, turn_every: usize| {
        let session = growth(10_000, thinking, turn_every);
        let mut acted = 0;
        let mut wrong = Vec::new();
        for name in preset_names() {
            let (blocks, summary) = work(&models, name, &session);
            assert_eq!((blocks.len(), summary.requests, summary.violations), (10_000, 10_000, 0), "{name}");
            acted += u64::from(summary.passes + summary.compactions > 0);
            // All have found their pace by request 2,000. What grew with the session would double; a pass more or
            // less is the noise.
            let (earlier, later) = (blocks[5_999] - blocks[1_999], blocks[9_999] - blocks[5_999]);
            if later * 4 > earlier * 5 {
                wrong.push(format!("{name}: {earlier} up to request 6,000, {later} behind it"));
            }
        }
        assert!(acted > 25, "only {acted} did anything");
        wrong
    };
    std::thread::scope(|scope| {
        let turns = scope.spawn(|| wrong_in(40, 20));
        assert_eq!(wrong_in(0, 100_000), [""; 0], "one turn, no thinking");
        assert_eq!(turns.join().unwrap(), [""; 0], "a turn every 20 requests");
    });
}
