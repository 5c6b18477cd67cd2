//! A grid of parameters over many sessions and all cores, and a search of one of them.
//!
//! `cargo run --release --example sweep`

mod support;

use std::sync::Arc;

use ctxsim::policy::{PolicyConfig, PolicySpec};
use ctxsim::provider::{ModelSpec, Models};
use ctxsim::report::table::{self, TableStyle};
use ctxsim::report::{Cell, Recipe, RecipePolicy, ResultSet, sweep as sweep_report};
use ctxsim::session::Session;
use ctxsim::sim::RunOptions;
use ctxsim::sweep::axis::{Axis, expand};
use ctxsim::sweep::{CellResult, Control, Detail, ModelChoice, Plan, Planned, runner};
use ctxsim::tune::{self, Cells, Settings, Space, output};

fn main() -> anyhow::Result<()> {
    let models = Models::builtin()?;
    let model = models.get("claude-opus-5-5")?;
    let none = "none".parse::<PolicySpec>()?.load(&[], &[])?;
    let arcturn = "arcturn".parse::<PolicySpec>()?.load(&[], &[])?;
    let grid: Vec<Axis> = vec!["minCharsPerPass=10000..200000:log:4".parse()?];
    let policies = expand(&[none, arcturn.clone()], &grid)?;
    let results = run_grid(&policies, model, &models)?;
    println!("{}", table::draw(sweep_report::grid(&results), TableStyle::default()));

    // The search looks for the cheapest value itself, and says whether it can be told from the others.
    let control = Control::default();
    let plan = plan(&[], model, &models)?;
    let ids: Vec<String> = plan.sessions.iter().map(|planned| planned.session.id.clone()).collect();
    let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
    let space = Space::new(&[arcturn], &["minCharsPerPass".parse()?])?;
    let settings = Settings { trials: 20, ..Settings::new("cost_usd", &["hit_rate >= 0.9".to_owned()])? };
    let mut cells = Cells { plan, models: &models, jobs: 0, control: &control };
    let tuned = tune::tune(space, settings, &ids, &mut cells)?;
    print!("{}", table::draw(output::grid(&tuned), TableStyle::default()));
    if let Err(why) = &tuned.recommended {
        println!("nothing is recommended: {why}");
    }
    Ok(())
}

/// Every session under every policy. The plan says what; the runner decides on which core, and never in which order.
fn run_grid(policies: &[PolicyConfig], model: &ModelSpec, models: &Models) -> anyhow::Result<ResultSet> {
    let plan = plan(policies, model, models)?;
    let mut cells: Vec<Cell> = Vec::new();
    let take = |block: Vec<CellResult>| {
        for result in block {
            cells.push(Cell {
                session: plan.sessions[result.session].session.id.clone(),
                policy: policies[result.policy].label.clone(),
                model: model.id.clone(),
                model_substituted: None,
                summary: result.summary,
            });
        }
        Ok::<(), ctxsim::Error>(())
    };
    runner::run(&plan, Detail::Summary, 0, &Control::default(), take)?;
    // The first policy of the recipe is the baseline of relative columns.
    let named = |config: &PolicyConfig| RecipePolicy {
        label: config.label.clone(),
        preset: config.preset.name.clone(),
        params: serde_json::Map::new(),
    };
    let recipe = Recipe { policies: policies.iter().map(named).collect(), ..Recipe::default() };
    Ok(ResultSet::new(recipe, Vec::new(), cells))
}

fn plan(policies: &[PolicyConfig], model: &ModelSpec, models: &Models) -> anyhow::Result<Plan> {
    let strategy = |config: &PolicyConfig| Ok::<_, ctxsim::Error>(vec![config.strategy(model, models)?]);
    Ok(Plan {
        sessions: support::sessions(std::env::args().skip(1))?.into_iter().map(on_the_one_model).collect(),
        models: vec![model.clone()],
        strategies: policies.iter().map(strategy).collect::<ctxsim::Result<_>>()?,
        options: RunOptions::default(),
    })
}

fn on_the_one_model(session: Session) -> Planned {
    Planned { session: Arc::new(session), models: vec![ModelChoice { model: 0, substituted: None }] }
}
