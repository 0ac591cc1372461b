//! The command lines of a page, with what it shows below them.

use std::fs;
use std::path::{Path, PathBuf};

pub(crate) struct Page {
    /// The path from the root of the repository.
    pub(crate) name: String,
    pub(crate) commands: Vec<Command>,
    /// Numbers of lines with a command outside a `sh` or `console` block, which nobody would run.
    pub(crate) stray: Vec<usize>,
    path: PathBuf,
}

pub(crate) struct Command {
    /// The number of its line in the page; the first is 1.
    pub(crate) line: usize,
    pub(crate) text: String,
    /// The lines that the page shows as its output.
    pub(crate) shown: Vec<String>,
    /// How far its block is indented.
    indent: usize,
    /// The index of the first and one past the last line that the page shows as its output.
    span: (usize, usize),
}

enum Block {
    None,
    /// Only commands.
    Sh,
    /// Commands and their output.
    Console,
    /// Anything else between fences.
    Other,
}

impl Page {
    pub(crate) fn read(path: &Path) -> Self {
        let text = fs::read_to_string(path).unwrap();
        let name = path.strip_prefix(super::root()).unwrap().display().to_string();
        let (mut block, mut indent) = (Block::None, 0);
        let (mut commands, mut stray) = (Vec::<Command>::new(), Vec::new());
        for (i, line) in text.lines().enumerate() {
            let trimmed = line.trim_start();
            if let Some(language) = trimmed.strip_prefix("```") {
                indent = line.len() - trimmed.len();
                block = match (&block, language) {
                    (Block::None, "sh") => Block::Sh,
                    (Block::None, "console") => Block::Console,
                    (Block::None, _) => Block::Other,
                    _ => Block::None,
                };
                continue;
            }
            let line = line.get(indent..).unwrap_or("");
            let command = |text: &str| Command {
                line: i + 1,
                text: text.to_owned(),
                shown: Vec::new(),
                indent,
                span: (i + 1, i + 1),
            };
            match (&block, commands.last_mut()) {
                (Block::Sh | Block::Console, Some(last)) if last.text.ends_with('\\') => {
                    last.text = format!("{}\n{line}", last.text);
                    last.span = (i + 1, i + 1);
                }
                (Block::Sh, _) if !line.is_empty() => commands.push(command(line)),
                (Block::Console, last) => match (line.strip_prefix("$ "), last) {
                    (Some(text), _) => commands.push(command(text)),
                    (None, Some(last)) if last.span.1 == i => {
                        last.shown.push(line.to_owned());
                        last.span.1 = i + 1;
                    }
                    _ => stray.push(i + 1),
                },
                (Block::Other, _) if is_command(line) => stray.push(i + 1),
                (Block::None, _) if line.starts_with("    ") && is_command(line.trim_start()) => {
                    stray.push(i + 1);
                }
                _ => {}
            }
        }
        Self { name, commands, stray, path: path.to_owned() }
    }

    /// Replaces the output that the page shows below these commands.
    pub(crate) fn write(&self, outputs: &[(&Command, Vec<String>)]) {
        let text = fs::read_to_string(&self.path).unwrap();
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        for (command, output) in outputs.iter().rev() {
            let indent = " ".repeat(command.indent);
            let output = output.iter().map(|line| format!("{indent}{line}").trim_end().to_owned());
            lines.splice(command.span.0..command.span.1, output);
        }
        fs::write(&self.path, lines.join("\n") + "\n").unwrap();
    }
}

fn is_command(line: &str) -> bool {
    line.starts_with("longhaul ") || line.starts_with("$ ") || line.starts_with("cargo run ")
}
