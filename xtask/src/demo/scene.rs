//! One scene of the story: its parts, and how it is played.

use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

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

/// A shell line, run as it stands here, and what its output shows; empty if the output speaks for itself.
#[derive(Debug)]
pub struct Act {
    pub run: &'static str,
    pub see: &'static str,
}

/// An act of a scene.
pub const fn act(run: &'static str, see: &'static str) -> Act {
    Act { run, see }
}

impl Scene {
    /// Prints the scene, runs its commands and shows their output.
    pub fn play(&self, number: usize, stage: &Stage) -> Result<()> {
        println!("\n{number}. {}\n{}", self.title, paragraph(self.about, "   "));
        for act in self.acts {
            println!("\n   $ {}", act.run);
            let shown = say(stage.dress(Command::new("sh").args(["-c", act.run])))
                .with_context(|| format!("in scene {number}, {:?}: {}", self.title, act.run))?;
            for line in shown.lines() {
                println!("   {line}");
            }
            if !act.see.is_empty() {
                println!("{}", paragraph(act.see, "   → "));
            }
        }
        let (command, shows) = self.try_it;
        println!("\n   Try: {command}\n{}", paragraph(shows, "        "));
        Ok(())
    }
}

/// A text in lines of a terminal's width, the first behind `lead`, the others as far in.
fn paragraph(text: &str, lead: &str) -> String {
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
