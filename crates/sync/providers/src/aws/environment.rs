//! What the process was told about AWS: variables, and the files that the AWS tools share.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use trustplane_process::secret::Secret;

use super::credentials::{ContainerAddress, Credentials, CredentialsError, WebIdentity};

/// Tells a variable by its name.
pub(super) type Variables = Arc<dyn Fn(&str) -> Option<String> + Send + Sync>;

/// What the process was told.
#[derive(Clone)]
pub(super) struct Environment {
    variables: Variables,
}

type Section = BTreeMap<String, String>;

impl Environment {
    pub fn new(variables: Variables) -> Self {
        Self { variables }
    }

    /// The environment of this process.
    pub fn of_process() -> Self {
        Self::new(Arc::new(|name| std::env::var(name).ok()))
    }

    /// The same, but for these variables.
    pub fn with(self, variables: BTreeMap<&'static str, Secret<String>>) -> Self {
        let told = self.variables;
        Self::new(Arc::new(move |name| match variables.get(name) {
            Some(value) => Some(value.expose().clone()),
            None => told(name),
        }))
    }

    /// An empty variable counts as unset.
    fn get(&self, name: &str) -> Option<String> {
        (self.variables)(name).filter(|value| !value.is_empty())
    }

    /// The region.
    pub fn region(&self) -> Option<String> {
        let named = self.get("AWS_REGION").or_else(|| self.get("AWS_DEFAULT_REGION"));
        named.or_else(|| self.profile().ok().flatten()?.remove("region"))
    }

    /// Where a service is, if not where AWS has it.
    pub fn endpoint(&self, service: &str) -> Option<String> {
        let own = self.get(&format!("AWS_ENDPOINT_URL_{service}"));
        let address = own.or_else(|| self.get("AWS_ENDPOINT_URL"))?;
        Some(address.trim_end_matches('/').to_owned())
    }

    /// Keys in variables.
    pub fn keys(&self) -> Option<Credentials> {
        let (id, secret) = (self.get("AWS_ACCESS_KEY_ID")?, self.get("AWS_SECRET_ACCESS_KEY")?);
        Some(Credentials::fixed(
            &id,
            &secret,
            self.get("AWS_SESSION_TOKEN").as_deref(),
        ))
    }

    /// Keys in the chosen profile.
    pub fn profile_keys(&self) -> Result<Option<Credentials>, CredentialsError> {
        let Some(profile) = self.profile()? else {
            return Ok(None);
        };
        let (Some(id), Some(secret)) = (
            profile.get("aws_access_key_id"),
            profile.get("aws_secret_access_key"),
        ) else {
            return Ok(None);
        };
        let token = profile.get("aws_session_token").map(String::as_str);
        Ok(Some(Credentials::fixed(id, secret, token)))
    }

    /// The role that a token in a file lets us take.
    pub fn web_identity(&self) -> Option<Result<WebIdentity, CredentialsError>> {
        let (role, file) = (
            self.get("AWS_ROLE_ARN")?,
            self.get("AWS_WEB_IDENTITY_TOKEN_FILE")?,
        );
        // Read each time: it is renewed.
        let token = std::fs::read_to_string(file).map_err(|error| CredentialsError::Unreadable {
            place: "the web identity",
            what: format!("its token: {}", error.kind()),
        });
        let region = self.region().unwrap_or_else(|| "us-east-1".to_owned());
        let endpoint = self.endpoint("STS").unwrap_or_else(|| host("sts", &region));
        let session = self
            .get("AWS_ROLE_SESSION_NAME")
            .unwrap_or_else(|| "trustplane".to_owned());
        Some(token.map(|token| WebIdentity {
            role,
            session,
            token: Secret::new(token.trim().to_owned()),
            endpoint,
        }))
    }

    /// Where a container gets its credentials: EKS Pod Identity and ECS.
    pub fn container_address(&self) -> Option<ContainerAddress> {
        let full = self.get("AWS_CONTAINER_CREDENTIALS_FULL_URI");
        let relative = || {
            let path = self.get("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI")?;
            Some(format!("http://169.254.170.2{path}"))
        };
        Some(ContainerAddress {
            url: full.or_else(relative)?,
            token: self.get("AWS_CONTAINER_AUTHORIZATION_TOKEN").map(Secret::new),
            token_file: self.get("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"),
        })
    }

    /// Whether the metadata service of an instance may be asked.
    pub fn may_ask_instance(&self) -> bool {
        let disabled = self.get("AWS_EC2_METADATA_DISABLED");
        !disabled.is_some_and(|value| value.eq_ignore_ascii_case("true"))
    }

    /// Where the metadata service is, if not where AWS has it.
    pub fn instance_address(&self) -> Option<String> {
        let address = self.get("AWS_EC2_METADATA_SERVICE_ENDPOINT")?;
        Some(address.trim_end_matches('/').to_owned())
    }

    /// The chosen profile, from both files. A profile that was named must be there.
    fn profile(&self) -> Result<Option<Section>, CredentialsError> {
        let named = self.get("AWS_PROFILE");
        let name = named.clone().unwrap_or_else(|| "default".to_owned());
        let file = |variable: &str, usual: &str| {
            let home = || Some(PathBuf::from(self.get("HOME")?).join(".aws").join(usual));
            self.get(variable).map(PathBuf::from).or_else(home)
        };
        let mut profile = None;
        // What the file of credentials says counts more.
        let files = [
            (file("AWS_CONFIG_FILE", "config"), format!("profile {name}")),
            (file("AWS_SHARED_CREDENTIALS_FILE", "credentials"), name.clone()),
        ];
        for (path, section) in files {
            let Some(text) = path.and_then(|path| std::fs::read_to_string(path).ok()) else {
                continue;
            };
            let mut sections = sections(&text);
            if let Some(found) = sections.remove(&section).or_else(|| sections.remove(&name)) {
                profile.get_or_insert_with(Section::new).extend(found);
            }
        }
        if profile.is_none() && named.is_some() {
            return Err(CredentialsError::Unreadable {
                place: "the profile",
                what: "AWS_PROFILE names one that no file has".to_owned(),
            });
        }
        Ok(profile)
    }
}

/// Where AWS has a service.
pub(super) fn host(service: &str, region: &str) -> String {
    let suffix = if region.starts_with("cn-") {
        "amazonaws.com.cn"
    } else {
        "amazonaws.com"
    };
    format!("https://{service}.{region}.{suffix}")
}

/// The sections of a file in the form of the AWS tools. Nested settings, which are indented, are left out.
fn sections(text: &str) -> BTreeMap<String, Section> {
    let mut sections: BTreeMap<String, Section> = BTreeMap::new();
    let mut current = None;
    for line in text.lines() {
        let is_nested = line.starts_with([' ', '\t']);
        let line = line.trim();
        if line.is_empty() || line.starts_with(['#', ';']) || is_nested {
            continue;
        }
        if let Some(name) = line.strip_prefix('[').and_then(|line| line.split_once(']')) {
            current = Some(name.0.trim().to_owned());
            continue;
        }
        if let (Some(section), Some((key, value))) = (&current, line.split_once('=')) {
            let section = sections.entry(section.clone()).or_default();
            section.insert(key.trim().to_owned(), value.trim().to_owned());
        }
    }
    sections
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environment(variables: &[(&str, &str)]) -> Environment {
        let variables: BTreeMap<String, String> = variables
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect();
        Environment::new(Arc::new(move |name| variables.get(name).cloned()))
    }

    #[test]
    fn variables_come_first() {
        let told = environment(&[
            ("AWS_ACCESS_KEY_ID", "AK"),
            ("AWS_SECRET_ACCESS_KEY", "sk"),
            ("AWS_DEFAULT_REGION", "eu-west-1"),
            ("AWS_ENDPOINT_URL", "http://127.0.0.1:5000/"),
            ("AWS_ENDPOINT_URL_STS", ""),
        ]);
        assert_eq!(told.keys().map(|keys| keys.key_id), Some("AK".to_owned()));
        assert_eq!(told.region().as_deref(), Some("eu-west-1"));
        assert_eq!(told.endpoint("STS").as_deref(), Some("http://127.0.0.1:5000"));
        assert!(
            environment(&[("AWS_ACCESS_KEY_ID", "AK")]).keys().is_none(),
            "half of it is none"
        );
    }

    #[test]
    fn a_profile_is_read_from_both_files() {
        let place = tempfile::tempdir().unwrap();
        let (config, keys) = (place.path().join("config"), place.path().join("credentials"));
        std::fs::write(
            &config,
            "[default]\nregion = us-east-1\n[profile work]\nregion = eu-central-1\ns3 =\n  x = y\n",
        )
        .unwrap();
        std::fs::write(
            &keys,
            "# mine\n[work]\naws_access_key_id = AK\naws_secret_access_key=sk=\n",
        )
        .unwrap();
        let files = [
            ("AWS_CONFIG_FILE", config.to_str().unwrap()),
            ("AWS_SHARED_CREDENTIALS_FILE", keys.to_str().unwrap()),
        ];
        let work = environment(&[&files[..], &[("AWS_PROFILE", "work")]].concat());
        assert_eq!(work.region().as_deref(), Some("eu-central-1"));
        let found = work.profile_keys().unwrap().unwrap();
        assert_eq!(
            (found.key_id.as_str(), found.secret.expose().as_str()),
            ("AK", "sk=")
        );
        assert!(environment(&files).profile_keys().unwrap().is_none());
        let wrong = environment(&[&files[..], &[("AWS_PROFILE", "none")]].concat());
        assert!(wrong.profile_keys().is_err());
    }

    #[test]
    fn china_has_a_name_of_its_own() {
        assert_eq!(
            host("sts", "cn-north-1"),
            "https://sts.cn-north-1.amazonaws.com.cn"
        );
        assert_eq!(host("sts", "eu-west-1"), "https://sts.eu-west-1.amazonaws.com");
    }
}
