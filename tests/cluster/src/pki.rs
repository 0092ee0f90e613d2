//! The keys of a cluster: who is who towards the API server, etcd and the kubelets.

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyPair, KeyUsagePurpose, date_time_ymd,
};

/// A certificate and its key, as files.
#[derive(Debug, Clone)]
pub struct CertificateFiles {
    /// The certificate.
    pub certificate: PathBuf,
    /// Its private key.
    pub key: PathBuf,
}

/// The service-account key pair, as files.
#[derive(Debug, Clone)]
pub struct ServiceAccountKeys {
    /// Signs tokens.
    pub private: PathBuf,
    /// Checks them.
    pub public: PathBuf,
}

/// A certificate authority whose key lies beside its certificate.
#[derive(Debug)]
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    dir: PathBuf,
    files: CertificateFiles,
}

impl Authority {
    /// Makes a new authority that keeps its files in `dir`.
    pub fn create(dir: &Path, name: &str) -> Result<Self> {
        fs::create_dir_all(dir).with_context(|| format!("create {}", dir.display()))?;
        let mut params = CertificateParams::default();
        params.distinguished_name = distinguished_name(name, None);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![
            KeyUsagePurpose::KeyCertSign,
            KeyUsagePurpose::CrlSign,
            KeyUsagePurpose::DigitalSignature,
        ];
        limit_lifetime(&mut params);
        let key = KeyPair::generate().context("make the key of an authority")?;
        let certificate = params
            .self_signed(&key)
            .with_context(|| format!("sign the authority {name}"))?;
        let files = save(dir, name, &certificate.pem(), &key)?;
        Ok(Self {
            issuer: Issuer::new(params, key),
            dir: dir.to_owned(),
            files,
        })
    }

    /// Opens the authority that [`Authority::create`] made.
    pub fn open(dir: &Path, name: &str) -> Result<Self> {
        let files = files(dir, name);
        let read = |path: &Path| fs::read_to_string(path).with_context(|| format!("read {}", path.display()));
        let key = KeyPair::from_pem(&read(&files.key)?).with_context(|| format!("read the key of {name}"))?;
        let issuer = Issuer::from_ca_cert_pem(&read(&files.certificate)?, key)
            .with_context(|| format!("read the certificate of {name}"))?;
        Ok(Self {
            issuer,
            dir: dir.to_owned(),
            files,
        })
    }

    /// Its own certificate, which clients trust, and its key.
    pub fn files(&self) -> &CertificateFiles {
        &self.files
    }

    /// A client certificate: Kubernetes takes the common name for the user and the organisation for its group.
    pub fn client(&self, file: &str, user: &str, group: Option<&str>) -> Result<CertificateFiles> {
        self.issue(
            file,
            distinguished_name(user, group),
            &[],
            vec![ExtendedKeyUsagePurpose::ClientAuth],
        )
    }

    /// A serving certificate for these DNS names and IP addresses.
    pub fn server(&self, file: &str, common_name: &str, names: &[String]) -> Result<CertificateFiles> {
        let subject = distinguished_name(common_name, None);
        self.issue(file, subject, names, vec![ExtendedKeyUsagePurpose::ServerAuth])
    }

    /// A certificate for both sides, as members of etcd use it among each other.
    pub fn peer(&self, file: &str, common_name: &str, names: &[String]) -> Result<CertificateFiles> {
        let usages = vec![
            ExtendedKeyUsagePurpose::ServerAuth,
            ExtendedKeyUsagePurpose::ClientAuth,
        ];
        self.issue(file, distinguished_name(common_name, None), names, usages)
    }

    fn issue(
        &self,
        file: &str,
        subject: DistinguishedName,
        names: &[String],
        usages: Vec<ExtendedKeyUsagePurpose>,
    ) -> Result<CertificateFiles> {
        let mut params =
            CertificateParams::new(names).with_context(|| format!("name the certificate {file}"))?;
        params.distinguished_name = subject;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = usages;
        limit_lifetime(&mut params);
        let key = KeyPair::generate().with_context(|| format!("make the key of {file}"))?;
        let certificate = params
            .signed_by(&key, &self.issuer)
            .with_context(|| format!("sign the certificate {file}"))?;
        save(&self.dir, file, &certificate.pem(), &key)
    }
}

/// Makes the key pair that signs service-account tokens.
pub fn service_account_keys(dir: &Path) -> Result<ServiceAccountKeys> {
    let key = KeyPair::generate().context("make the service-account key")?;
    let keys = ServiceAccountKeys {
        private: dir.join("service-account.key"),
        public: dir.join("service-account.pub"),
    };
    write_private(&keys.private, &key.serialize_pem())?;
    write_private(&keys.public, &key.public_key_pem())?;
    Ok(keys)
}

/// Writes a file that only its owner can read.
pub fn write_private(path: &Path, content: &str) -> Result<()> {
    let write = || -> std::io::Result<()> {
        let mut file = File::options()
            .create(true)
            .truncate(true)
            .write(true)
            .mode(0o600)
            .open(path)?;
        file.write_all(content.as_bytes())
    };
    write().with_context(|| format!("write {}", path.display()))
}

fn files(dir: &Path, name: &str) -> CertificateFiles {
    CertificateFiles {
        certificate: dir.join(format!("{name}.crt")),
        key: dir.join(format!("{name}.key")),
    }
}

fn save(dir: &Path, name: &str, certificate: &str, key: &KeyPair) -> Result<CertificateFiles> {
    let files = files(dir, name);
    write_private(&files.key, &key.serialize_pem())?;
    write_private(&files.certificate, certificate)?;
    Ok(files)
}

fn distinguished_name(common_name: &str, organisation: Option<&str>) -> DistinguishedName {
    let mut name = DistinguishedName::new();
    name.push(DnType::CommonName, common_name);
    if let Some(organisation) = organisation {
        name.push(DnType::OrganizationName, organisation);
    }
    name
}

/// Longer than any cluster lives, and valid since before any clock that is a little late.
fn limit_lifetime(params: &mut CertificateParams) {
    let year = i32::from(Timestamp::now().to_zoned(TimeZone::UTC).year());
    params.not_before = date_time_ymd(year - 1, 1, 1);
    params.not_after = date_time_ymd(year + 10, 1, 1);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn an_authority_issues_the_same_way_after_it_was_opened_again() {
        let dir = tempfile::tempdir().unwrap();
        let made = Authority::create(dir.path(), "ca").unwrap();
        let opened = Authority::open(dir.path(), "ca").unwrap();
        assert_eq!(opened.files().certificate, made.files().certificate);
        let client = opened
            .client("admin", "kubernetes-admin", Some("system:masters"))
            .unwrap();
        let pem = fs::read_to_string(&client.certificate).unwrap();
        assert!(pem.starts_with("-----BEGIN CERTIFICATE-----"));
        let mode = fs::metadata(&client.key).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }
}
