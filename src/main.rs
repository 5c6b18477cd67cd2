//! The command line of ctxsim.

mod cli;

fn main() -> std::process::ExitCode {
    cli::main()
}
