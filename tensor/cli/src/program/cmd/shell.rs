//! `doorbell completions` and `doorbell man`: made from the same definitions as the help texts.

use std::path::{Path, PathBuf};

use clap::{Command, ValueEnum};

use crate::program::error::Error;

/// Print shell completions.
#[derive(clap::Args)]
pub struct Completions {
    /// Shell
    #[arg(value_enum)]
    shell: Shell,
}

/// Those whose completions are tried by tests.
#[derive(Clone, Copy, ValueEnum)]
enum Shell {
    /// `doorbell completions bash > /usr/share/bash-completion/completions/doorbell`
    Bash,
    /// `doorbell completions zsh > /usr/share/zsh/vendor-completions/_doorbell`
    Zsh,
    /// `doorbell completions fish > ~/.config/fish/completions/doorbell.fish`
    Fish,
}

/// Prints them.
pub fn completions(args: &Completions, mut command: Command) -> Result<(), Error> {
    let shell = match args.shell {
        Shell::Bash => clap_complete::Shell::Bash,
        Shell::Zsh => clap_complete::Shell::Zsh,
        Shell::Fish => clap_complete::Shell::Fish,
    };
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut command, "doorbell", &mut text);
    std::io::Write::write_all(&mut std::io::stdout().lock(), &text).map_err(Error::Output)
}

/// Write a man page for each command.
#[derive(clap::Args)]
pub struct Man {
    /// Existing output folder: `/usr/local/share/man/man1`
    folder: PathBuf,
}

/// What the first page calls the text after its options, and what that is.
const HEADINGS: [&str; 2] = [".SH EXTRA\n", ".SH ENVIRONMENT AND EXIT CODES\n"];

/// Writes them.
pub fn man(args: &Man, command: Command) -> Result<(), Error> {
    let first = args.folder.join(format!("{}.1", command.get_name()));
    let failed = |path: &Path, source| Error::File {
        path: path.display().to_string(),
        source,
    };
    clap_mangen::generate_to(command, &args.folder).map_err(|e| failed(&args.folder, e))?;
    let page = std::fs::read_to_string(&first).map_err(|e| failed(&first, e))?;
    std::fs::write(&first, page.replace(HEADINGS[0], HEADINGS[1])).map_err(|e| failed(&first, e))
}
