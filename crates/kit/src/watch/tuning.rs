//! The times and sizes of watches.

use std::time::Duration;

use trustplane_process::backoff::Backoff;

/// Times and sizes; the defaults are right for production, tests shorten them.
#[derive(Debug, Clone)]
pub struct Tuning {
    /// How long a watch request lasts before the server ends it. Below the idle limit of the usual load balancers, which
    /// drop silent connections without telling anybody.
    pub watch_timeout: Duration,
    /// How long after its time a watch may still be open before we take the connection for dead.
    pub idle_grace: Duration,
    /// How long the server may take to answer a request, to send one page, or to fall silent while it sends a list.
    pub request_timeout: Duration,
    /// The wait after a failure; it starts over once events flow again.
    pub backoff: Backoff,
    /// The wait between looks at a kind that is forbidden or not served.
    pub probe: Backoff,
    /// How many objects a page of a list holds.
    pub page_size: u32,
    /// The longest line of a watch, in bytes. A longer one is skipped and reported.
    pub max_line: usize,
    /// The largest page of a list, in bytes. A larger one is asked for again in smaller pieces.
    pub max_page: usize,
    /// How often to list anew although nothing is known to be wrong: the net below a server that lost an event.
    pub refresh: Option<Duration>,
}

impl Default for Tuning {
    fn default() -> Self {
        Self {
            watch_timeout: Duration::from_secs(200),
            idle_grace: Duration::from_secs(5),
            request_timeout: Duration::from_secs(30),
            backoff: Backoff {
                first: Duration::from_millis(500),
                max: Duration::from_secs(30),
            },
            probe: Backoff {
                first: Duration::from_secs(1),
                max: Duration::from_secs(30),
            },
            page_size: 500,
            max_line: 8 << 20,
            max_page: 128 << 20,
            refresh: Some(Duration::from_secs(6 * 3600)),
        }
    }
}

impl Tuning {
    /// How long a watch must have lasted to count as a success although nothing happened on it.
    pub(super) fn settled(&self) -> Duration {
        Duration::from_secs(10).min(self.watch_timeout / 2)
    }
}
