//! Frames on the socket between the agent and its child.
//!
//! | bytes | |
//! |---|---|
//! | 4 | the length of all that follows, big-endian |
//! | 4 | the length of the head |
//! | … | the head: JSON, which never holds a value or a PIN |
//! | 4 + … | each value or PIN behind its length, to the end of the frame |
//!
//! Values and PINs pass no serialiser: a frame is one buffer of its final size, which is wiped.

use std::io::{self, Read, Write};

use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use trustplane_hsm_core::secret::Value;
use zeroize::Zeroizing;

/// The largest frame: several times the largest secret, or a list of many thousand.
pub(crate) const LARGEST: usize = 16 * 1024 * 1024;

const PREFIX: usize = 4;

/// A head, and the values or PINs that belong to it.
#[derive(Debug)]
pub(crate) struct Message<T> {
    pub head: T,
    pub secrets: Vec<Value>,
}

impl<T> From<T> for Message<T> {
    fn from(head: T) -> Self {
        Self {
            head,
            secrets: Vec::new(),
        }
    }
}

/// Why a frame cannot be sent or understood. It holds nothing of the frame.
#[derive(Debug, thiserror::Error)]
pub enum FrameError {
    /// The socket failed, or ended within a frame.
    #[error("socket: {0}")]
    Socket(#[from] io::Error),
    /// It is larger than any frame may be.
    #[error("a frame of more than 16 MiB")]
    TooLarge,
    /// It makes no sense.
    #[error("a frame that makes no sense")]
    Malformed,
}

/// The bytes of a message, with the length before them.
pub(crate) fn encode<T: Serialize>(message: &Message<T>) -> Result<Zeroizing<Vec<u8>>, FrameError> {
    let head = serde_json::to_vec(&message.head).map_err(|_| FrameError::Malformed)?;
    let secrets: usize = message.secrets.iter().map(|secret| PREFIX + secret.len()).sum();
    let length = PREFIX + head.len() + secrets;
    if length > LARGEST {
        return Err(FrameError::TooLarge);
    }
    // Of its final size: a buffer that grows leaves copies behind.
    let mut bytes = Zeroizing::new(Vec::with_capacity(PREFIX + length));
    let prefix = |length: usize| u32::try_from(length).map_err(|_| FrameError::TooLarge);
    bytes.extend(prefix(length)?.to_be_bytes());
    bytes.extend(prefix(head.len())?.to_be_bytes());
    bytes.extend(head);
    for secret in &message.secrets {
        bytes.extend(prefix(secret.len())?.to_be_bytes());
        bytes.extend(secret.expose());
    }
    Ok(bytes)
}

/// The message that the bytes behind the length are.
pub(crate) fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<Message<T>, FrameError> {
    let (head, mut rest) = part(bytes)?;
    let head = serde_json::from_slice(head).map_err(|_| FrameError::Malformed)?;
    let mut secrets = Vec::new();
    while !rest.is_empty() {
        let (secret, after) = part(rest)?;
        secrets.push(Value::new(secret));
        rest = after;
    }
    Ok(Message { head, secrets })
}

fn part(bytes: &[u8]) -> Result<(&[u8], &[u8]), FrameError> {
    let (prefix, rest) = bytes.split_first_chunk().ok_or(FrameError::Malformed)?;
    rest.split_at_checked(number(*prefix))
        .ok_or(FrameError::Malformed)
}

fn number(prefix: [u8; PREFIX]) -> usize {
    u32::from_be_bytes(prefix) as usize
}

fn buffer(prefix: [u8; PREFIX]) -> Result<Zeroizing<Vec<u8>>, FrameError> {
    match number(prefix) {
        length if length > LARGEST => Err(FrameError::TooLarge),
        length => Ok(Zeroizing::new(vec![0; length])),
    }
}

/// Reads one message; nothing if the other side has ended before it.
pub(crate) fn read<T: DeserializeOwned>(socket: &mut impl Read) -> Result<Option<Message<T>>, FrameError> {
    let mut prefix = [0; PREFIX];
    if socket.read(&mut prefix[..1])? == 0 {
        return Ok(None);
    }
    socket.read_exact(&mut prefix[1..])?;
    let mut bytes = buffer(prefix)?;
    socket.read_exact(&mut bytes)?;
    decode(&bytes).map(Some)
}

/// Writes one message.
pub(crate) fn write<T: Serialize>(socket: &mut impl Write, message: &Message<T>) -> Result<(), FrameError> {
    Ok(socket.write_all(&encode(message)?)?)
}

/// Sends bytes that were encoded, and waits for the answer to them.
pub(crate) async fn exchange<T: DeserializeOwned>(
    socket: &mut (impl AsyncRead + AsyncWrite + Unpin),
    request: &[u8],
) -> Result<Message<T>, FrameError> {
    socket.write_all(request).await?;
    let mut prefix = [0; PREFIX];
    socket.read_exact(&mut prefix).await?;
    let mut bytes = buffer(prefix)?;
    socket.read_exact(&mut bytes).await?;
    decode(&bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message() -> Message<Vec<String>> {
        Message {
            head: vec!["read".to_owned()],
            secrets: vec![Value::new("hunter2"), Value::new(""), Value::new(vec![0, 255])],
        }
    }

    #[test]
    fn a_message_comes_out_as_it_went_in() {
        let bytes = encode(&message()).unwrap();
        let mut socket = bytes.as_slice();
        let read: Message<Vec<String>> = read(&mut socket).unwrap().unwrap();
        assert_eq!((read.head, read.secrets), (message().head, message().secrets));
        assert!(super::read::<()>(&mut socket).unwrap().is_none());
    }

    #[test]
    fn a_buffer_has_its_final_size_from_the_start() {
        let bytes = encode(&message()).unwrap();
        assert_eq!(bytes.capacity(), bytes.len());
    }

    #[test]
    fn a_frame_that_is_cut_anywhere_is_refused() {
        let bytes = encode(&message()).unwrap();
        for length in 1..bytes.len() {
            let cut = read::<Vec<String>>(&mut &bytes[..length]);
            assert!(matches!(cut, Err(FrameError::Socket(_))), "{length}");
        }
        for length in 0..bytes.len() - PREFIX {
            // At the end of a secret it is a whole frame with fewer of them.
            if let Ok(fewer) = decode::<Vec<String>>(&bytes[PREFIX..PREFIX + length]) {
                assert!(fewer.secrets.len() < 3);
            }
        }
        assert!(matches!(decode::<()>(b"\0\0\0\x01x"), Err(FrameError::Malformed)));
    }

    #[test]
    fn a_frame_that_is_too_large_is_neither_sent_nor_read() {
        let large = Message {
            head: (),
            secrets: vec![Value::new(vec![0; LARGEST])],
        };
        assert!(matches!(encode(&large), Err(FrameError::TooLarge)));
        let endless = u32::MAX.to_be_bytes();
        assert!(matches!(
            read::<()>(&mut endless.as_slice()),
            Err(FrameError::TooLarge)
        ));
    }
}
