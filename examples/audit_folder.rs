//! What a folder of recordings wasted: every cache miss with its cause, and the worst of them. Nothing is simulated.
//!
//! `cargo run --example audit_folder -- ~/.claude/projects`

mod support;

use ctxsim::audit::{Account, Audit, audit};
use ctxsim::cause::Cause;
use ctxsim::metrics::{Usd, group_digits};
use ctxsim::provider::Models;

fn main() -> anyhow::Result<()> {
    let models = Models::builtin()?;
    let accounts: Vec<Account> =
        support::sessions(std::env::args().skip(1))?.iter().map(Account::of_session).collect();
    // The last argument is the day whose prices are used; without one, the latest.
    let found = Audit::new(accounts.iter().map(|account| audit(account, &models, None)).collect());
    for cause in Cause::ALL {
        let miss = found.total.miss(*cause);
        if miss.tokens > 0 {
            let tokens = group_digits(u128::from(miss.tokens));
            println!("{:18} {tokens:>12} tokens in {} requests", cause.name(), miss.requests);
        }
    }
    for (session, worst) in found.worst_breaks().into_iter().take(3) {
        let cost = worst.wasted_pusd.map(|pusd| format!("${}", Usd(pusd).rounded(2))).unwrap_or_default();
        println!("{}, request {}: {} {cost}", session.session, worst.request, worst.cause.name());
    }
    Ok(())
}
