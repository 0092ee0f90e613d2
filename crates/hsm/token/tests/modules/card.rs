//! A card without plastic: as much of a SmartCard-HSM as data objects need. It sits in the reader of `vsmartcard-vpcd`, a
//! driver of pcscd that waits for cards on a port; each message has its length before it, in two bytes.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use crate::stage::PIN;

/// What a SmartCard-HSM says of itself when it gets power.
const ANSWER_TO_RESET: [u8; 24] = [
    0x3b, 0xfe, 0x18, 0x00, 0x00, 0x81, 0x31, 0xfe, 0x45, 0x80, 0x31, 0x81, 0x54, 0x48, 0x53, 0x4d, 0x31,
    0x73, 0x80, 0x21, 0x40, 0x81, 0x07, 0xfa,
];
/// A card that no driver of OpenSC knows.
const STRANGE_ANSWER: &[u8] = b"\x3b\x8a\x80\x01trustplane\x09";
const APPLICATION: [u8; 11] = [0xe8, 0x2b, 0x06, 0x01, 0x04, 0x01, 0x81, 0xc3, 0x1f, 0x02, 0x01];

/// The certificate of the device, which holds its serial number.
const DEVICE: u16 = 0x2f02;
/// The first byte of the files that can be read after a login only.
const PRIVATE: u16 = 0xcd;
/// The first byte of the files that describe data objects.
const DESCRIPTION: u16 = 0xc9;
const TRIES: u8 = 3;

/// Answers, as ISO 7816-4 numbers them.
mod answer {
    pub const FINE: u16 = 0x9000;
    pub const END_OF_FILE: u16 = 0x6282;
    pub const TRIES_LEFT: u16 = 0x63c0;
    pub const NOT_ALLOWED: u16 = 0x6982;
    pub const BLOCKED: u16 = 0x6983;
    pub const NO_ROOM: u16 = 0x6a84;
    pub const NO_SUCH_FILE: u16 = 0x6a82;
    pub const NO_SUCH_REFERENCE: u16 = 0x6a88;
    pub const NO_SUCH_COMMAND: u16 = 0x6d00;
}

/// All files of a card.
pub type Files = BTreeMap<u16, Vec<u8>>;

/// What lasts when the card is pulled.
#[derive(Debug)]
struct Chip {
    strange: bool,
    files: Files,
    /// What the files were after each command that changed them, if that is recorded.
    record: Option<Vec<Files>>,
    tries: u8,
    /// Bytes that all files may have.
    room: usize,
}

/// A card, in a reader or not.
#[derive(Debug, Clone)]
pub struct Card(Arc<Mutex<Chip>>);

impl Card {
    /// A SmartCard-HSM with a serial number of nine letters and digits.
    pub fn new(serial: &str) -> Self {
        Self::of(false, BTreeMap::from([(DEVICE, certificate(serial))]))
    }

    /// A card that is no token.
    pub fn strange() -> Self {
        Self::of(true, BTreeMap::new())
    }

    fn of(strange: bool, files: Files) -> Self {
        Self(Arc::new(Mutex::new(Chip {
            strange,
            files,
            record: None,
            tries: TRIES,
            room: 200_000,
        })))
    }

    /// Has room for so many bytes more, and no others.
    pub fn leave_room_for(&self, bytes: usize) {
        let mut chip = self.0.lock().unwrap();
        chip.room = chip.used() + bytes;
    }

    /// What is on it.
    pub fn files(&self) -> Files {
        self.0.lock().unwrap().files.clone()
    }

    /// Has these files and no others, as if its power had gone when it had them. Nobody must be using it.
    pub fn set(&self, files: &Files) {
        let mut chip = self.0.lock().unwrap();
        (chip.files, chip.record) = (files.clone(), None);
    }

    /// Keeps what is on it after each command that changes it from now on.
    pub fn record(&self) {
        self.0.lock().unwrap().record = Some(Vec::new());
    }

    /// What was kept.
    pub fn recorded(&self) -> Vec<Files> {
        self.0.lock().unwrap().record.take().unwrap_or_default()
    }

    /// Has copies of the data object with this label until there are so many objects in all.
    pub fn copy_until(&self, label: &str, count: usize) {
        let mut chip = self.0.lock().unwrap();
        let descriptions = |files: &Files| -> Vec<u16> {
            files
                .keys()
                .copied()
                .filter(|file| file >> 8 == DESCRIPTION)
                .collect()
        };
        let names = |file: &u16| {
            chip.files[file]
                .windows(label.len())
                .any(|part| part == label.as_bytes())
        };
        let named = descriptions(&chip.files).into_iter().find(names).unwrap();
        let value = PRIVATE << 8 | named & 0xff;
        let (description, content) = (chip.files[&named].clone(), chip.files[&value].clone());
        let place = description
            .windows(2)
            .position(|bytes| bytes == value.to_be_bytes())
            .unwrap();
        for id in (0..=0xff).rev().take(count - descriptions(&chip.files).len()) {
            let mut copy = description.clone();
            copy[place + 1] = id;
            chip.files.insert(DESCRIPTION << 8 | u16::from(id), copy);
            chip.files.insert(PRIVATE << 8 | u16::from(id), content.clone());
        }
    }

    /// The tries that are left for the PIN.
    pub fn tries(&self) -> u8 {
        self.0.lock().unwrap().tries
    }

    /// Puts the card into the reader that waits on a port. Dropping the result pulls it.
    pub fn insert(&self, port: u16) -> Inserted {
        let socket = TcpStream::connect(("127.0.0.1", port)).unwrap();
        let contact = Contact {
            chip: self.0.clone(),
            selected: 0,
            verified: false,
        };
        let reader = socket.try_clone().unwrap();
        Inserted {
            socket,
            // It ends when the reader lets go of the card, or we do.
            thread: Some(std::thread::spawn(move || drop(contact.serve(reader)))),
        }
    }
}

/// A card in a reader.
pub struct Inserted {
    socket: TcpStream,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Inserted {
    fn drop(&mut self) {
        drop(self.socket.shutdown(Shutdown::Both));
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
    }
}

impl Chip {
    fn used(&self) -> usize {
        self.files.values().map(Vec::len).sum()
    }
}

/// A card under power.
struct Contact {
    chip: Arc<Mutex<Chip>>,
    selected: u16,
    verified: bool,
}

impl Contact {
    fn serve(mut self, mut reader: TcpStream) -> io::Result<()> {
        loop {
            let mut length = [0; 2];
            reader.read_exact(&mut length)?;
            let mut message = vec![0; u16::from_be_bytes(length).into()];
            reader.read_exact(&mut message)?;
            let answer = match message[..] {
                // Power off, power on, reset: nobody is logged in any more, and nothing is answered.
                [0..=2] => {
                    (self.selected, self.verified) = (0, false);
                    continue;
                }
                [4] if self.chip.lock().unwrap().strange => STRANGE_ANSWER.to_vec(),
                [4] => ANSWER_TO_RESET.to_vec(),
                _ => self.execute(&message),
            };
            let length = u16::try_from(answer.len()).unwrap().to_be_bytes();
            reader.write_all(&[&length, &answer[..]].concat())?;
        }
    }

    fn execute(&mut self, message: &[u8]) -> Vec<u8> {
        let (data, wanted) = body(&message[4..]);
        let (first, second) = (message[2], message[3]);
        let chip = self.chip.clone();
        let mut chip = chip.lock().unwrap();
        let result = match message[1] {
            _ if chip.strange => Err(answer::NO_SUCH_FILE),
            0x20 => self.verify(&mut chip, second, data),
            0x58 => Ok(list(&chip)),
            0xa4 => self.select(&chip, first, data),
            0xb1 => self.read(&chip, data, wanted),
            0xd7 if self.verified => self.write(&mut chip, u16::from_be_bytes([first, second]), data),
            0xe4 if self.verified => delete(&mut chip, data),
            0xd7 | 0xe4 => Err(answer::NOT_ALLOWED),
            _ => Err(answer::NO_SUCH_COMMAND),
        };
        if matches!(message[1], 0xd7 | 0xe4) && result.is_ok() {
            let Chip { files, record, .. } = &mut *chip;
            record.iter_mut().for_each(|record| record.push(files.clone()));
        }
        let (mut data, code) = match result {
            Ok(data) if matches!(message[1], 0xb1) && data.len() < wanted => (data, answer::END_OF_FILE),
            Ok(data) => (data, answer::FINE),
            Err(code) => (Vec::new(), code),
        };
        data.extend(code.to_be_bytes());
        data
    }

    /// Compares the PIN; without one it tells how many tries are left.
    fn verify(&mut self, chip: &mut Chip, reference: u8, pin: &[u8]) -> Result<Vec<u8>, u16> {
        if reference != 0x81 {
            return Err(answer::NO_SUCH_REFERENCE);
        }
        if !pin.is_empty() && chip.tries > 0 {
            self.verified = pin == PIN.as_bytes();
            chip.tries = if self.verified { TRIES } else { chip.tries - 1 };
        }
        match (self.verified, chip.tries) {
            (true, _) => Ok(Vec::new()),
            (false, 0) => Err(answer::BLOCKED),
            (false, tries) => Err(answer::TRIES_LEFT | u16::from(tries)),
        }
    }

    fn select(&mut self, chip: &Chip, how: u8, what: &[u8]) -> Result<Vec<u8>, u16> {
        if how == 4 {
            self.verified = false;
            return match what == APPLICATION {
                true => Ok(tlv(
                    &[0x6f],
                    &[tlv(&[0x82], &[0x78]), tlv(&[0x85], &[0, 0, 0, 3, 5])].concat(),
                )),
                false => Err(answer::NO_SUCH_FILE),
            };
        }
        let file = number(what);
        let content = chip.files.get(&file).ok_or(answer::NO_SUCH_FILE)?;
        self.selected = file;
        let size = u16::try_from(content.len()).unwrap().to_be_bytes();
        let control = [tlv(&[0x80], &size), tlv(&[0x82], &[1]), tlv(&[0x83], what)];
        Ok(tlv(&[0x6f], &control.concat()))
    }

    fn read(&self, chip: &Chip, data: &[u8], wanted: usize) -> Result<Vec<u8>, u16> {
        if self.selected >> 8 == PRIVATE && !self.verified {
            return Err(answer::NOT_ALLOWED);
        }
        let content = chip.files.get(&self.selected).ok_or(answer::NO_SUCH_FILE)?;
        let offset = usize::from(number(&data[2..])).min(content.len());
        Ok(content[offset..content.len().min(offset + wanted)].to_vec())
    }

    /// Writes to a file, which is made if it has to be; to the one that is selected if none is named.
    fn write(&mut self, chip: &mut Chip, file: u16, data: &[u8]) -> Result<Vec<u8>, u16> {
        self.selected = if file == 0 { self.selected } else { file };
        let offset = usize::from(number(&data[2..]));
        let value = match data[5] {
            0x81 => &data[7..],
            0x82 => &data[8..],
            _ => &data[6..],
        };
        let room = chip.room - chip.used();
        let content = chip.files.entry(self.selected).or_default();
        let end = offset + value.len();
        if end.saturating_sub(content.len()) > room {
            return Err(answer::NO_ROOM);
        }
        content.resize(content.len().max(end), 0);
        content[offset..end].copy_from_slice(value);
        Ok(Vec::new())
    }
}

fn delete(chip: &mut Chip, file: &[u8]) -> Result<Vec<u8>, u16> {
    let removed = chip.files.remove(&number(file));
    removed.map(|_| Vec::new()).ok_or(answer::NO_SUCH_FILE)
}

fn list(chip: &Chip) -> Vec<u8> {
    let files = chip.files.keys().filter(|file| **file != DEVICE);
    files.flat_map(|file| file.to_be_bytes()).collect()
}

/// The data of a command, and how much it wants to have.
fn body(body: &[u8]) -> (&[u8], usize) {
    let or = |wanted: usize, most: usize| if wanted == 0 { most } else { wanted };
    match *body {
        [] => (&[], 0),
        [wanted] => (&[], or(wanted.into(), 0x100)),
        [0, high, low] => (&[], or(u16::from_be_bytes([high, low]).into(), 0x1_0000)),
        [0, high, low, ref rest @ ..] => {
            let (data, wanted) = rest.split_at(u16::from_be_bytes([high, low]).into());
            (
                data,
                if wanted.is_empty() {
                    0
                } else {
                    or(number(wanted).into(), 0x1_0000)
                },
            )
        }
        [length, ref rest @ ..] => {
            let (data, wanted) = rest.split_at(length.into());
            (
                data,
                wanted.first().map_or(0, |wanted| or((*wanted).into(), 0x100)),
            )
        }
    }
}

fn number(bytes: &[u8]) -> u16 {
    u16::from_be_bytes([bytes[0], bytes[1]])
}

/// A value behind its tag and its length, which is below 128 for whatever we make.
fn tlv(tag: &[u8], value: &[u8]) -> Vec<u8> {
    let length = u8::try_from(value.len()).unwrap();
    let length: &[u8] = if length < 0x80 { &[length] } else { &[0x81, length] };
    [tag, length, value].concat()
}

/// As much of a certificate as is looked at: whose it is. Keys and signatures are not checked.
fn certificate(serial: &str) -> Vec<u8> {
    let key = [
        tlv(
            &[0x06],
            &[0x04, 0x00, 0x7f, 0x00, 0x07, 0x02, 0x02, 0x02, 0x02, 0x03],
        ),
        tlv(&[0x86], &[4; 65]),
    ];
    let holder = format!("{serial}00001");
    let content = [
        tlv(&[0x5f, 0x29], &[0]),
        tlv(&[0x42], b"UTTESTCA00001"),
        tlv(&[0x7f, 0x49], &key.concat()),
        tlv(&[0x5f, 0x20], holder.as_bytes()),
    ];
    let parts = [
        tlv(&[0x7f, 0x4e], &content.concat()),
        tlv(&[0x5f, 0x37], &[5; 64]),
    ];
    tlv(&[0x7f, 0x21], &parts.concat())
}
