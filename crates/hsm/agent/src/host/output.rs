//! What foreign programs print: a module, and the daemon below it.
//!
//! It is read, so that nobody waits for us to read it, and counted. It is not shown, because a module with its debugging on
//! prints PINs; whoever wants to see it says so, and gets it in lines that are not too long and not too many.

use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::time::Instant;

/// The most bytes of a line that are shown.
const LONGEST: usize = 300;
/// The most lines that are shown in a second.
const MOST: u32 = 20;

/// Whether what a foreign program prints gets into our log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Output {
    /// No: it is counted.
    #[default]
    Counted,
    /// Yes, PINs and all.
    Shown,
}

/// Reads what a program prints, to its end.
pub(crate) async fn drain(program: &'static str, stream: Option<impl AsyncRead + Unpin>, output: Output) {
    let Some(mut stream) = stream else { return };
    let (mut lines, mut buffer, mut told) = (Lines::default(), [0; 4096], false);
    loop {
        // A pipe that breaks has ended.
        let read = stream.read(&mut buffer).await.unwrap_or(0);
        let whole = lines.take(&buffer[..read], Instant::now());
        match output {
            Output::Shown => {
                for line in whole {
                    tracing::info!(program, line, "it says");
                }
            }
            Output::Counted if lines.count > 0 && !told => {
                told = true;
                tracing::warn!(
                    program,
                    "it prints something, which is not shown because it may hold PINs; --show-module-output shows it"
                );
            }
            Output::Counted => {}
        }
        if read == 0 {
            break;
        }
    }
    if lines.count > 0 {
        tracing::info!(
            program,
            lines = lines.count,
            "it has ended, and has printed so much"
        );
    }
}

/// Lines of what was printed, cut and rationed.
#[derive(Debug, Default)]
struct Lines {
    /// The line that has not ended yet.
    begun: Vec<u8>,
    is_begun: bool,
    count: u64,
    /// How many there were since then.
    ration: Option<(Instant, u32)>,
}

impl Lines {
    /// The lines that end in these bytes, as far as there is a ration for them. No bytes are the end.
    fn take(&mut self, bytes: &[u8], now: Instant) -> Vec<String> {
        let mut whole = Vec::new();
        for byte in bytes {
            match byte {
                b'\n' => whole.extend(self.end(now)),
                byte => {
                    self.is_begun = true;
                    if self.begun.len() < LONGEST {
                        self.begun.push(*byte);
                    }
                }
            }
        }
        if bytes.is_empty() && self.is_begun {
            whole.extend(self.end(now));
        }
        whole
    }

    fn end(&mut self, now: Instant) -> Option<String> {
        let line = std::mem::take(&mut self.begun);
        self.is_begun = false;
        self.count += 1;
        let (since, used) = self.ration.unwrap_or((now, 0));
        let (since, used) = match now.duration_since(since) < Duration::from_secs(1) {
            true => (since, used),
            false => (now, 0),
        };
        self.ration = Some((since, used.saturating_add(1)));
        (used < MOST).then(|| String::from_utf8_lossy(&line).into_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_cut_and_rationed_and_all_are_counted() {
        let (mut lines, now) = (Lines::default(), Instant::now());
        assert_eq!(lines.take(b"a\nb", now), ["a"]);
        assert_eq!(lines.take(b"c\n", now), ["bc"]);
        assert_eq!(lines.take(&[b'x'; 5000], now), [""; 0]);
        assert_eq!(lines.take(b"\n", now), ["x".repeat(LONGEST)]);
        let flood = b"\n".repeat(1000);
        assert_eq!(lines.take(&flood, now).len(), MOST as usize - 3);
        assert!(lines.take(&flood, now).is_empty());
        let later = now + Duration::from_secs(1);
        assert_eq!(lines.take(b"\xff\nlast", later), ["\u{fffd}"]);
        assert_eq!(lines.take(b"", later), ["last"]);
        assert_eq!(lines.count, 2005);
    }
}
