use trustplane_api::hsm::secrets_tool::ErrorKind;
use trustplane_hsm_core::path::KeyName;
use trustplane_hsm_core::secret::Value;

use super::*;

fn data(pairs: &[(&str, &str)]) -> Data {
    let pairs = pairs.iter();
    pairs
        .map(|(key, value)| (KeyName::parse(key).unwrap(), Value::new(*value)))
        .collect()
}

fn current(version: u64, pairs: &[(&str, &str)]) -> Current {
    Current {
        version,
        deleted: pairs.is_empty(),
        checksum: format!("sum-{version}"),
        digest: String::new(),
        data: data(pairs),
        metadata: SecretMetadata {
            description: "before".to_owned(),
            labels: [("sync.version", version.to_string()), ("team", "a".to_owned())]
                .map(|(label, text)| (label.to_owned(), text))
                .into(),
            ..SecretMetadata::default()
        },
    }
}

fn wanted(mode: WriteMode, pairs: &[(&str, &str)]) -> Wanted {
    Wanted {
        mode,
        data: data(pairs),
        description: None,
    }
}

/// A store whose secret changes with each read. It takes a write only after the last change, if the write expects that version.
struct Script {
    reads: Vec<Option<Current>>,
    written: Option<WriteSecretRequest>,
    attempts: u32,
}

impl Script {
    fn of(reads: Vec<Option<Current>>) -> Self {
        Self {
            reads: reads.into_iter().rev().collect(),
            written: None,
            attempts: 0,
        }
    }
}

impl SecretStore for Script {
    async fn read(&mut self, _: &SecretPath) -> Result<Option<Current>, Failure> {
        match self.reads.len() {
            0 | 1 => Ok(self.reads.last().cloned().flatten()),
            _ => Ok(self.reads.pop().flatten()),
        }
    }

    async fn write(&mut self, request: WriteSecretRequest) -> Result<WriteSecretResponse, Failure> {
        self.attempts += 1;
        let now = self.reads.last().cloned().flatten();
        let found = request.expected.and_then(|expected| expected.found);
        let is_met = match found {
            Some(Found::Version(version)) => now.as_ref().is_some_and(|now| now.version == version),
            _ => now.as_ref().is_none_or(|now| now.deleted),
        };
        if !is_met || self.reads.len() > 1 {
            return Err(refused());
        }
        self.written = Some(request);
        Ok(WriteSecretResponse {
            version: now.map_or(1, |now| now.version + 1),
            checksum: "new".to_owned(),
        })
    }
}

fn refused() -> Failure {
    Failure {
        is_unexpected: true,
        ..Failure::new(ErrorKind::Refused, "the token is write-protected")
    }
}

async fn run(store: &mut Script, wanted: &Wanted) -> Result<(u64, bool), ErrorKind> {
    let path = SecretPath::parse("shop/db").unwrap();
    match write(store, &path, wanted).await {
        Ok(Answer::Changed { version, written, .. }) => Ok((version, written)),
        Ok(other) => panic!("{other:?}"),
        Err(failure) => Err(failure.error.kind),
    }
}

fn sent(store: &Script) -> Vec<(String, Vec<u8>)> {
    let request = store.written.clone().unwrap();
    let mut sent: Vec<_> = request.secret_data.unwrap().data.into_iter().collect();
    sent.sort();
    sent
}

fn pair(key: &str, value: &str) -> (String, Vec<u8>) {
    (key.to_owned(), value.as_bytes().to_vec())
}

#[tokio::test]
async fn merge_keeps_other_keys_and_metadata() {
    let mut store = Script::of(vec![Some(current(3, &[("user", "a"), ("password", "b")]))]);
    let done = run(&mut store, &wanted(WriteMode::Merge, &[("password", "c")])).await;
    assert_eq!(done, Ok((4, true)));
    assert_eq!(sent(&store), [pair("password", "c"), pair("user", "a")]);
    let metadata = store.written.unwrap().metadata.unwrap();
    assert_eq!(metadata.description, "before");
    let labels: Vec<_> = metadata.labels.into_iter().collect();
    assert_eq!(labels, [("team".to_owned(), "a".to_owned())]);
}

#[tokio::test]
async fn replace_removes_other_keys() {
    let mut store = Script::of(vec![Some(current(3, &[("user", "a"), ("password", "b")]))]);
    let replace = Wanted {
        description: Some("after".to_owned()),
        ..wanted(WriteMode::Replace, &[("password", "c")])
    };
    assert_eq!(run(&mut store, &replace).await, Ok((4, true)));
    assert_eq!(sent(&store), [pair("password", "c")]);
    assert_eq!(store.written.unwrap().metadata.unwrap().description, "after");
}

#[tokio::test]
async fn merge_takes_the_edit_of_another_writer_when_the_version_moved() {
    let edited = current(4, &[("user", "z"), ("password", "b")]);
    let mut store = Script::of(vec![
        Some(current(3, &[("user", "a"), ("password", "b")])),
        Some(edited),
    ]);
    let done = run(&mut store, &wanted(WriteMode::Merge, &[("password", "c")])).await;
    assert_eq!((done, store.attempts), (Ok((5, true)), 2));
    assert_eq!(sent(&store), [pair("password", "c"), pair("user", "z")]);
}

#[tokio::test]
async fn write_ends_in_a_conflict_when_the_version_always_moves() {
    let reads = (1..=20)
        .map(|version| Some(current(version, &[("k", "v")])))
        .collect();
    let mut store = Script::of(reads);
    let done = run(&mut store, &wanted(WriteMode::Merge, &[("k", "w")])).await;
    assert_eq!((done, store.attempts), (Err(ErrorKind::Conflict), ATTEMPTS));
}

#[tokio::test]
async fn write_is_not_repeated_when_the_token_refuses_it() {
    let refuse = |reads| async move {
        struct Protected(Script);
        impl SecretStore for Protected {
            async fn read(&mut self, path: &SecretPath) -> Result<Option<Current>, Failure> {
                self.0.read(path).await
            }
            async fn write(&mut self, _: WriteSecretRequest) -> Result<WriteSecretResponse, Failure> {
                self.0.attempts += 1;
                Err(refused())
            }
        }
        let mut store = Protected(Script::of(reads));
        let path = SecretPath::parse("a").unwrap();
        let done = write(&mut store, &path, &wanted(WriteMode::Create, &[("k", "v")])).await;
        (done.unwrap_err().to_string(), store.0.attempts)
    };
    let told = ("the token is write-protected".to_owned(), 1);
    assert_eq!(refuse(vec![None]).await, told);
    assert_eq!(refuse(vec![Some(current(2, &[]))]).await, told);
}

#[tokio::test]
async fn create_succeeds_over_nothing_and_over_a_tombstone() {
    let create = wanted(WriteMode::Create, &[("k", "v")]);
    assert_eq!(run(&mut Script::of(vec![None]), &create).await, Ok((1, true)));
    let mut store = Script::of(vec![Some(current(6, &[]))]);
    assert_eq!(run(&mut store, &create).await, Ok((7, true)));
    assert_eq!(store.written.unwrap().metadata.unwrap().description, "");
}

#[tokio::test]
async fn create_leaves_a_secret_with_the_same_content_as_it_is() {
    let mut store = Script::of(vec![Some(current(2, &[("k", "v")]))]);
    let create = wanted(WriteMode::Create, &[("k", "v")]);
    assert_eq!(run(&mut store, &create).await, Ok((2, false)));
    for other in [
        wanted(WriteMode::Create, &[("k", "w")]),
        wanted(WriteMode::Create, &[("k", "v"), ("l", "")]),
        Wanted {
            description: Some("another".to_owned()),
            ..create
        },
    ] {
        assert_eq!(run(&mut store, &other).await, Err(ErrorKind::Exists));
    }
    assert_eq!(store.attempts, 0);
}

#[tokio::test]
async fn create_fails_when_another_writer_was_first() {
    let mut store = Script::of(vec![None, Some(current(1, &[("k", "theirs")]))]);
    let create = wanted(WriteMode::Create, &[("k", "ours")]);
    assert_eq!(run(&mut store, &create).await, Err(ErrorKind::Exists));
    assert_eq!((store.attempts, store.written), (1, None));
}

#[tokio::test]
async fn update_fails_when_there_is_no_secret() {
    for mode in [WriteMode::Merge, WriteMode::Replace] {
        for reads in [vec![None], vec![Some(current(2, &[]))]] {
            let mut store = Script::of(reads);
            let done = run(&mut store, &wanted(mode, &[("k", "v")])).await;
            assert_eq!((done, store.attempts), (Err(ErrorKind::NotFound), 0));
        }
    }
}
