//! One scene of the story: its parts, and how it is played.

use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use super::browser;
use super::stage::Stage;

/// One numbered part of the story.
#[derive(Debug)]
pub struct Scene {
    pub title: &'static str,
    /// Who does what, and why.
    pub about: &'static str,
    pub acts: &'static [Act],
    /// A command for the reader's own terminal, and what it shows.
    pub try_it: (&'static str, &'static str),
    /// Whether it needs what only a node of our own has.
    pub at_home: bool,
}

/// One step of a scene. What its output shows stands in `see`; empty if the output speaks for itself.
#[derive(Debug)]
pub enum Act {
    /// A shell line, run to its end as it stands here.
    Line { run: &'static str, see: &'static str },
    /// A shell line that prints a link and stays until the end of the demo.
    Link { run: &'static str, see: &'static str },
    /// The page behind the link.
    Page(&'static Page),
}

/// What is looked at on the page behind the link, by a person or by a browser of our own.
#[derive(Debug)]
pub struct Page {
    /// What a person looks at.
    pub about: &'static str,
    /// The name of the cluster.
    pub cluster: &'static str,
    /// A pod that comes and goes while a browser looks on.
    pub namespace: &'static str,
    pub pod: &'static str,
    /// The shell lines by which it comes and goes.
    pub create: &'static str,
    pub delete: &'static str,
}

/// Who looks at the pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Audience {
    /// A person, who opens the link.
    Person,
    /// A headless browser, driven by the demo.
    Browser,
}

impl Audience {
    /// Fails if there is no browser here to look at the pages: better now than at the end of the story.
    pub fn check(self) -> Result<()> {
        match self {
            Self::Person => Ok(()),
            Self::Browser => browser::check(),
        }
    }
}

/// An act of a scene.
pub const fn act(run: &'static str, see: &'static str) -> Act {
    Act::Line { run, see }
}

impl Act {
    /// The shell line, if it is one.
    #[cfg(test)]
    pub fn line(&self) -> Option<&'static str> {
        match self {
            Self::Line { run, .. } | Self::Link { run, .. } => Some(run),
            Self::Page(_) => None,
        }
    }
}

/// What a link begins with.
const LINK: &str = "http://";

impl Scene {
    /// Prints the scene, runs its commands and shows their output.
    pub fn play(&self, number: usize, stage: &Stage, audience: Audience) -> Result<()> {
        println!("\n{number}. {}\n{}", self.title, paragraph(self.about, "   "));
        let mut link = None;
        for act in self.acts {
            let told = |line: &str| format!("in scene {number}, {:?}: {line}", self.title);
            match act {
                Act::Line { run, see } => {
                    println!("\n   $ {run}");
                    let shown =
                        say(stage.dress(Command::new("sh").args(["-c", run]))).with_context(|| told(run))?;
                    show(&shown, see);
                }
                Act::Link { run, see } => {
                    println!("\n   $ {run} &");
                    let found = stage.start(run, LINK).with_context(|| told(run))?;
                    show(&found, see);
                    link = Some(found);
                }
                Act::Page(page) => match audience {
                    Audience::Person => println!("\n{}", paragraph(page.about, "   → ")),
                    Audience::Browser => {
                        let link = link.as_deref().context("a page without a link")?;
                        browser::watch(page, link, stage).with_context(|| told(link))?;
                    }
                },
            }
        }
        let (command, shows) = self.try_it;
        println!("\n   Try: {command}\n{}", paragraph(shows, "        "));
        Ok(())
    }
}

/// Prints what a command has said, and what it shows.
fn show(said: &str, see: &str) {
    for line in said.lines() {
        println!("   {line}");
    }
    if !see.is_empty() {
        println!("{}", paragraph(see, "   → "));
    }
}

/// A text in lines of a terminal's width, the first behind `lead`, the others as far in.
pub fn paragraph(text: &str, lead: &str) -> String {
    const WIDTH: usize = 100;
    let indent = " ".repeat(lead.chars().count());
    let mut lines = vec![lead.to_owned()];
    for word in text.split_whitespace() {
        let line = lines.last().map_or("", String::as_str);
        let begun = line != lead && line != indent;
        if begun && line.chars().count() + word.chars().count() >= WIDTH {
            lines.push(format!("{indent}{word}"));
        } else if let Some(line) = lines.last_mut() {
            if begun {
                line.push(' ');
            }
            line.push_str(word);
        }
    }
    lines.join("\n")
}

/// What a command prints, both streams in the order of a pipe; its last words when it fails.
fn say(command: &mut Command) -> Result<String> {
    let output = command.stdin(Stdio::null()).output().context("start a shell")?;
    let said = format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    if !output.status.success() {
        bail!("{}\n{said}", output.status);
    }
    Ok(said)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paragraph_wraps_words_and_indents_like_its_lead() {
        assert_eq!(paragraph("one two", "→ "), "→ one two");
        let text = "word ".repeat(30);
        let wrapped = paragraph(&text, "   → ");
        let lines: Vec<&str> = wrapped.lines().collect();
        assert_eq!(lines.len(), 2);
        assert!(lines[0].starts_with("   → word") && lines[1].starts_with("     word"));
        assert!(lines.iter().all(|line| line.chars().count() <= 100), "{wrapped}");
        assert_eq!(
            wrapped.split_whitespace().filter(|word| *word == "word").count(),
            30
        );
    }
}
