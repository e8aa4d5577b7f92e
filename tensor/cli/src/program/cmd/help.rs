//! `doorbell help`: pages about what concerns several commands, and the help of single commands.

use std::io::Write;

use clap::Command;

use crate::program::error::Error;

/// Print a page about devices, variables, models, hangs or tracing, or the help of a command.
#[derive(clap::Args)]
pub struct Args {
    /// A page (targets, variables, models, hangs, tracing), or a command: `help trace show`
    names: Vec<String>,
}

/// The pages, which are the files of the folder `help`.
pub const PAGES: [(&str, &str); 5] = [
    ("targets", include_str!("../../../help/targets.md")),
    ("variables", include_str!("../../../help/variables.md")),
    ("models", include_str!("../../../help/models.md")),
    ("hangs", include_str!("../../../help/hangs.md")),
    ("tracing", include_str!("../../../help/tracing.md")),
];

/// Prints it.
pub fn run(args: &Args, mut cli: Command) -> Result<(), Error> {
    // So that subcommands know their full names.
    cli.build();
    let text = match &args.names[..] {
        [name] if page(name).is_some() => unlinked(page(name).unwrap_or_default()),
        names => {
            let mut command = &mut cli;
            for name in names {
                let known = command.get_subcommands().any(|c| c.get_name() == name);
                command = match command.find_subcommand_mut(name).filter(|_| known) {
                    Some(found) => found,
                    None => return Err(unknown(names)),
                };
            }
            command.render_long_help().to_string()
        }
    };
    write!(std::io::stdout().lock(), "{text}").map_err(Error::Output)
}

fn page(name: &str) -> Option<&'static str> {
    let found = PAGES.iter().find(|(page, _)| *page == name);
    found.map(|(_, text)| *text)
}

/// A page with the texts of its links alone: a terminal follows none.
fn unlinked(page: &str) -> String {
    let mut out = String::with_capacity(page.len());
    let mut rest = page;
    while let Some((before, after)) = rest.split_once('[') {
        out += before;
        let link = after
            .split_once("](")
            .filter(|(text, _)| !text.contains([']', '[', '\n']));
        match link.and_then(|(text, after)| Some((text, after.split_once(')')?.1))) {
            Some((text, after)) => {
                out += text;
                rest = after;
            }
            None => {
                out.push('[');
                rest = after;
            }
        }
    }
    out + rest
}

fn unknown(names: &[String]) -> Error {
    let pages = PAGES.map(|(name, _)| name).join(", ");
    let names = names.join(" ");
    Error::Usage(format!(
        "help {names}: expected a page ({pages}) or a command (`doorbell --help` lists them), found {names:?}"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_become_their_texts_and_other_brackets_stay() {
        for (page, text) in [
            (
                "see [the list](#list-of-all), or [b](c.md).",
                "see the list, or b.",
            ),
            (
                "DEV=[IFACE[:IDX]+]DEVICE [x] (y) [",
                "DEV=[IFACE[:IDX]+]DEVICE [x] (y) [",
            ),
            ("[a[0]](b) [open](", "[a[0]](b) [open]("),
        ] {
            assert_eq!(unlinked(page), text);
        }
        for (name, text) in PAGES {
            assert!(!unlinked(text).contains("]("), "{name}");
        }
    }
}
