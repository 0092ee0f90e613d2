//! The types of the other HSM crates as they go over the socket.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use trustplane_hsm_core::change::{Numbering, Terms};
use trustplane_hsm_core::generation::Generation;
use trustplane_hsm_core::layout::Usage;
use trustplane_hsm_core::limits::{Limits, Room};
use trustplane_hsm_core::metadata::Metadata;
use trustplane_hsm_core::version::{Expected, Stamp};
use trustplane_hsm_token::{Attempt, Capacity, Memory, PinTries, TokenInfo};

#[derive(Serialize, Deserialize)]
#[serde(remote = "Stamp")]
pub(super) struct StampDef {
    version: u64,
    timestamp: Option<Timestamp>,
    deleted: bool,
    source: Option<String>,
    epoch: Option<u64>,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Metadata")]
pub(super) struct MetadataDef {
    description: String,
    labels: BTreeMap<String, String>,
    format: String,
    data_type: String,
    created_at: String,
    source: String,
    #[serde(with = "StampDef")]
    stamp: Stamp,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Expected")]
enum ExpectedDef {
    Any,
    Absent,
    Version(u64),
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Numbering")]
enum NumberingDef {
    Given,
    Next,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Terms")]
pub(super) struct TermsDef {
    #[serde(with = "ExpectedDef")]
    expected: Expected,
    #[serde(with = "NumberingDef")]
    numbering: Numbering,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Attempt")]
pub(super) enum AttemptDef {
    Automatic,
    Corrected,
    Ordered,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Limits")]
pub(super) struct LimitsDef {
    label: Option<usize>,
    value: Option<usize>,
    objects: Option<usize>,
    bytes: Option<usize>,
    never_empty: bool,
    vague_when_full: bool,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Generation")]
pub(super) struct GenerationDef {
    counter: u64,
    epoch: u64,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Usage")]
struct UsageDef {
    objects: usize,
    bytes: usize,
    foreign: usize,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Room")]
struct RoomDef {
    objects: Option<usize>,
    bytes: Option<usize>,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Memory")]
struct MemoryDef {
    public_total: Option<usize>,
    public_free: Option<usize>,
    private_total: Option<usize>,
    private_free: Option<usize>,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Capacity")]
pub(super) struct CapacityDef {
    #[serde(with = "UsageDef")]
    usage: Usage,
    #[serde(with = "RoomDef")]
    room: Room,
    #[serde(with = "MemoryDef")]
    memory: Memory,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "PinTries")]
enum PinTriesDef {
    Unknown,
    Low,
    Final,
    Locked,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "TokenInfo")]
pub(super) struct TokenInfoDef {
    slot: u64,
    reader: String,
    label: String,
    serial: String,
    manufacturer: String,
    model: String,
    firmware: String,
    #[serde(with = "PinTriesDef")]
    pin_tries: PinTries,
    initialised: bool,
    has_user_pin: bool,
    write_protected: bool,
    #[serde(with = "MemoryDef")]
    memory: Memory,
}
