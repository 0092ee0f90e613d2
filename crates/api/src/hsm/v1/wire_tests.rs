//! The fields of the original have the numbers of the original, byte by byte.

use prost::Message;

use super::*;

/// A field of text or bytes, or a message within a message.
fn field(number: u8, content: &[u8]) -> Vec<u8> {
    let length = u8::try_from(content.len()).unwrap();
    [&[number << 3 | 2, length], content].concat()
}

fn text(word: &str) -> String {
    word.to_owned()
}

#[test]
fn what_a_token_says_of_itself_has_the_numbers_of_the_original() {
    let info = HsmInfo {
        label: text("l"),
        manufacturer: text("m"),
        model: text("o"),
        serial_number: text("s"),
        firmware_version: text("f"),
        ..HsmInfo::default()
    };
    let parts = [b"l", b"m", b"o", b"s", b"f"];
    let wanted: Vec<u8> = (1..)
        .zip(parts)
        .flat_map(|(number, part)| field(number, part))
        .collect();
    assert_eq!(info.encode_to_vec(), wanted);
    let answer = GetInfoResponse {
        hsm_info: Some(info),
        ..GetInfoResponse::default()
    };
    assert_eq!(answer.encode_to_vec(), field(1, &wanted));
}

#[test]
fn metadata_has_the_numbers_of_the_original() {
    let metadata = SecretMetadata {
        description: text("d"),
        labels: [(text("k"), text("v"))].into(),
        format: text("f"),
        data_type: text("t"),
        created_at: text("c"),
        source: text("s"),
    };
    let label = [field(1, b"k"), field(2, b"v")].concat();
    let parts: [&[u8]; 6] = [b"d", &label, b"f", b"t", b"c", b"s"];
    let wanted: Vec<u8> = (1..)
        .zip(parts)
        .flat_map(|(number, part)| field(number, part))
        .collect();
    assert_eq!(metadata.encode_to_vec(), wanted);
    let answer = ReadMetadataResponse {
        metadata: Some(metadata.clone()),
    };
    assert_eq!(answer.encode_to_vec(), field(1, &wanted));
    let write = WriteSecretRequest {
        metadata: Some(metadata),
        ..WriteSecretRequest::default()
    };
    assert_eq!(write.encode_to_vec(), field(3, &wanted));
}

#[test]
fn requests_and_answers_have_the_numbers_of_the_original() {
    let path = || text("p");
    let of_a_path = field(1, b"p");
    let requests = [
        ReadMetadataRequest { path: path() }.encode_to_vec(),
        GetChecksumRequest { path: path() }.encode_to_vec(),
        ListSecretsRequest {
            prefix: path(),
            ..ListSecretsRequest::default()
        }
        .encode_to_vec(),
        ListSecretsResponse {
            paths: vec![path()],
            ..ListSecretsResponse::default()
        }
        .encode_to_vec(),
        GetChecksumResponse {
            checksum: path(),
            ..GetChecksumResponse::default()
        }
        .encode_to_vec(),
    ];
    for request in requests {
        assert_eq!(request, of_a_path);
    }
    let delete = DeleteSecretRequest {
        path: path(),
        key: text("k"),
        ..DeleteSecretRequest::default()
    };
    let pins = ChangePinRequest {
        old_pin: path(),
        new_pin: text("k"),
    };
    let health = HealthResponse {
        status: path(),
        message: text("k"),
        ..HealthResponse::default()
    };
    let of_two = [field(1, b"p"), field(2, b"k")].concat();
    for message in [
        delete.encode_to_vec(),
        pins.encode_to_vec(),
        health.encode_to_vec(),
    ] {
        assert_eq!(message, of_two);
    }
    assert_eq!(
        IsConnectedResponse { connected: true }.encode_to_vec(),
        b"\x08\x01"
    );
}
