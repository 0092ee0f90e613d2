//! Addresses to listen on, as Go programs write them.

use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use tokio::net::TcpListener;

/// Where to listen: `:8080` (every interface), `127.0.0.1:8080`, `[::1]:8080`, `localhost:8080`, or `0` for nowhere.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BindAddress {
    /// Nowhere.
    Off,
    /// Every interface.
    Every {
        /// The port; 0 lets the system choose.
        port: u16,
    },
    /// One interface.
    Host {
        /// An address or a name that resolves to one, without brackets.
        host: String,
        /// The port; 0 lets the system choose.
        port: u16,
    },
}

/// An address that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    /// The text is not an address.
    #[error("`{0}` is not an address: want `:port`, `host:port`, `[ipv6]:port`, or `0` for off")]
    Syntax(String),
    /// The system refused.
    #[error("cannot listen on {address}")]
    Listen {
        /// Where.
        address: BindAddress,
        /// Why not.
        source: std::io::Error,
    },
}

impl BindAddress {
    /// The port, unless off.
    pub fn port(&self) -> Option<u16> {
        match self {
            Self::Off => None,
            Self::Every { port } | Self::Host { port, .. } => Some(*port),
        }
    }

    /// Opens the listener; `None` when off.
    pub async fn listen(&self) -> Result<Option<TcpListener>, BindError> {
        let listener = match self {
            Self::Off => return Ok(None),
            // Both families where the machine has IPv6, the old one where it has not.
            Self::Every { port } => match TcpListener::bind((Ipv6Addr::UNSPECIFIED, *port)).await {
                Err(error) if error.kind() != std::io::ErrorKind::AddrInUse => {
                    TcpListener::bind((Ipv4Addr::UNSPECIFIED, *port)).await
                }
                bound => bound,
            },
            Self::Host { host, port } => TcpListener::bind((host.as_str(), *port)).await,
        };
        listener.map(Some).map_err(|source| BindError::Listen {
            address: self.clone(),
            source,
        })
    }
}

impl FromStr for BindAddress {
    type Err = BindError;

    fn from_str(text: &str) -> Result<Self, BindError> {
        let syntax = || BindError::Syntax(text.to_owned());
        if text == "0" {
            return Ok(Self::Off);
        }
        let (host, port) = text.rsplit_once(':').ok_or_else(syntax)?;
        let port = port.parse().map_err(|_| syntax())?;
        let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
        match bare {
            None if host.is_empty() => Ok(Self::Every { port }),
            Some(bare) if bare.parse::<Ipv6Addr>().is_ok() => Ok(Self::Host {
                host: bare.to_owned(),
                port,
            }),
            None if !host.contains([':', '[', ']', '/']) => Ok(Self::Host {
                host: host.to_owned(),
                port,
            }),
            _ => Err(syntax()),
        }
    }
}

impl fmt::Display for BindAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Off => f.write_str("0"),
            Self::Every { port } => write!(f, ":{port}"),
            Self::Host { host, port } if host.contains(':') => write!(f, "[{host}]:{port}"),
            Self::Host { host, port } => write!(f, "{host}:{port}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_go_programs_read_and_prints_it_back() {
        for text in [
            ":8080",
            "0",
            "127.0.0.1:0",
            "[::1]:443",
            "localhost:8443",
            "0.0.0.0:1",
        ] {
            assert_eq!(text.parse::<BindAddress>().unwrap().to_string(), text);
        }
        for text in [
            "",
            "8080",
            ":http",
            ":99999",
            "::1:80",
            "http://x:80",
            "[::1",
            "[x]:80",
        ] {
            let error = text.parse::<BindAddress>().unwrap_err().to_string();
            assert!(
                error.starts_with(&format!("`{text}` is not an address")),
                "{error}"
            );
        }
    }

    #[tokio::test]
    async fn an_address_in_use_is_named() {
        let taken = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address: BindAddress = taken.local_addr().unwrap().to_string().parse().unwrap();
        let error = address.listen().await.unwrap_err();
        assert_eq!(error.to_string(), format!("cannot listen on {address}"));
        assert!(BindAddress::Off.listen().await.unwrap().is_none());
    }
}
