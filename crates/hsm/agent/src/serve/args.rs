//! The arguments of `trustplane-agent serve`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Parser;
use strum::IntoEnumIterator;
use trustplane_hsm_core::limits::{Limits, Profile};
use trustplane_hsm_core::module;
use trustplane_kit::clients::KubeArgs;
use trustplane_process::args::{CommonArgs, duration};

use crate::catalogue::{Passes, Renewal};
use crate::host::Output;
use crate::kubernetes::RecordRef;
use crate::pin_secret::PinRef;
use crate::wire::Wanted;

/// Serve one token over gRPC with mutual TLS.
#[derive(Debug, Parser)]
#[command(
    name = "trustplane-agent serve",
    bin_name = "trustplane-agent serve",
    mut_arg("admin_bind_address", |arg| arg.default_value("0")),
    after_help = "Example:\n  trustplane-agent serve --device-name=stick --pkcs11-library=/usr/lib/softhsm/libsofthsm2.so \\\n    \
                  --token-label=dev-a --pin-secret=vault/stick-pin/pin --record=vault/hsm-agent-stick\n\n\
                  Every flag is also an environment variable, and a key of the file that --config names."
)]
pub struct ServeArgs {
    /// Name of the HSMDevice that the token belongs to
    #[arg(long, value_name = "NAME", help_heading = "Token")]
    pub device_name: String,
    /// PKCS#11 module of the token
    #[arg(long, value_name = "FILE", help_heading = "Token")]
    pub pkcs11_library: PathBuf,
    /// Label that the token must have
    #[arg(long, value_name = "TEXT", help_heading = "Token")]
    pub token_label: Option<String>,
    /// Serial number that the token must have
    #[arg(long, value_name = "TEXT", help_heading = "Token")]
    pub token_serial: Option<String>,
    /// Serial number of the USB device, which the name of the token's reader must hold
    #[arg(long, value_name = "TEXT", help_heading = "Token")]
    pub reader_serial: Option<String>,
    /// Accepted and not used: a slot is a position, and positions change
    #[arg(
        long,
        value_name = "NUMBER",
        allow_negative_numbers = true,
        help_heading = "Token"
    )]
    pub slot_id: Option<i64>,
    /// What the token can take: software, opensc, opensc-64, pico-hsm, smartcard-hsm or yubihsm2. Without this, opensc for a module of
    /// OpenSC, and software for any other
    #[arg(long, value_name = "PROFILE", value_parser = profile, help_heading = "Token")]
    pub limits: Option<Profile>,
    /// Nobody but us writes to the token: its generation tells of changes, and it is not read through
    #[arg(long, help_heading = "Token")]
    pub exclusive: bool,
    /// How often the token is read through for what other tools have written
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = duration, help_heading = "Token")]
    pub pass_interval: Duration,
    /// Whether the module keeps what it has seen once: auto (OpenSC does), yes or no
    #[arg(long, value_name = "WHEN", default_value = "auto", help_heading = "Token")]
    pub module_caches: Caches,
    /// How long the module may take for one request
    #[arg(long, value_name = "DURATION", default_value = "20s", value_parser = duration, help_heading = "Token")]
    pub module_deadline: Duration,
    /// Where processes that want to open the token meet, so that one of them holds it: a lock and a socket are made there. Without
    /// this, the directory for temporary files
    #[arg(long, value_name = "DIRECTORY", help_heading = "Token")]
    pub runtime_dir: Option<PathBuf>,
    /// Log what the module and pcscd print. With their debugging on, that may hold PINs
    #[arg(long, help_heading = "Token")]
    pub show_module_output: bool,
    /// pcscd to run beside the module, or off
    #[arg(long, value_name = "FILE", default_value = "off", help_heading = "Token")]
    pub pcscd: PathBuf,

    /// Where the PIN is: a key of a Secret
    #[arg(
        long,
        value_name = "NAMESPACE/NAME/KEY",
        required_unless_present = "pin_file",
        requires = "record",
        help_heading = "PIN"
    )]
    pub pin_secret: Option<PinRef>,
    /// ConfigMap in which tries of PINs are written down
    #[arg(long, value_name = "NAMESPACE/NAME", help_heading = "PIN")]
    pub record: Option<RecordRef>,
    /// Key of the digests in the record
    #[arg(
        long,
        value_name = "FILE",
        default_value = "/etc/hsm/record/record.key",
        help_heading = "PIN"
    )]
    pub record_key_file: PathBuf,
    /// File with the PIN, for use without Kubernetes: what was tried is not written down
    #[arg(
        long,
        value_name = "FILE",
        conflicts_with = "pin_secret",
        help_heading = "PIN"
    )]
    pub pin_file: Option<PathBuf>,
    /// Make a blank token ours
    #[arg(long, help_heading = "PIN")]
    pub auto_provision: bool,
    /// File with the security officer's PIN for a blank token
    #[arg(
        long,
        value_name = "FILE",
        default_value = "/etc/hsm/so-pin/so-pin",
        help_heading = "PIN"
    )]
    pub so_pin_file: PathBuf,

    /// Port of the gRPC service; 0 for one that is free, which the log tells
    #[arg(long, default_value_t = 9090, help_heading = "Ports")]
    pub port: u16,
    /// Port of probes and metrics; 0 for one that is free, which the log tells
    #[arg(long, default_value_t = 8093, help_heading = "Ports")]
    pub health_port: u16,
    /// Our certificate
    #[arg(
        long,
        value_name = "FILE",
        default_value = "/etc/hsm/tls/tls.crt",
        help_heading = "Ports"
    )]
    pub tls_cert_file: PathBuf,
    /// Its key
    #[arg(
        long,
        value_name = "FILE",
        default_value = "/etc/hsm/tls/tls.key",
        help_heading = "Ports"
    )]
    pub tls_key_file: PathBuf,
    /// Authorities that vouch for the manager
    #[arg(
        long,
        value_name = "FILE",
        default_value = "/etc/hsm/tls/ca.crt",
        help_heading = "Ports"
    )]
    pub tls_client_ca_file: PathBuf,

    /// Name of this agent: of its Deployment, and in its certificate
    #[arg(
        long,
        value_name = "NAME",
        default_value = "hsm-agent",
        help_heading = "Identity"
    )]
    pub agent_name: String,
    /// Name of this pod
    #[arg(long, env = "POD_NAME", value_name = "NAME", help_heading = "Identity")]
    pub pod: Option<String>,
    /// Namespace of this pod
    #[arg(long, env = "POD_NAMESPACE", value_name = "NAME", help_heading = "Identity")]
    pub namespace: Option<String>,
    /// Uid of this pod
    #[arg(
        long,
        env = "POD_UID",
        value_name = "UID",
        default_value = "",
        help_heading = "Identity"
    )]
    pub pod_uid: String,
    /// Node that this pod runs on
    #[arg(long, env = "NODE_NAME", value_name = "NAME", help_heading = "Identity")]
    pub node: Option<String>,

    /// How to reach the cluster.
    #[command(flatten)]
    pub kube: KubeArgs,
    /// What every process takes.
    #[command(flatten)]
    pub common: CommonArgs,
}

/// Whether the module keeps what it has seen once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Caches {
    /// By its name.
    Auto,
    /// It does.
    Yes,
    /// It does not.
    No,
}

pub(crate) fn profile(text: &str) -> Result<Profile, String> {
    text.parse().map_err(|_| {
        let names: Vec<&'static str> = Profile::iter().map(Into::into).collect();
        format!("want one of {}", names.join(", "))
    })
}

impl AsRef<CommonArgs> for ServeArgs {
    fn as_ref(&self) -> &CommonArgs {
        &self.common
    }
}

impl ServeArgs {
    /// The token; nothing if nothing says which.
    pub fn wanted(&self) -> Option<Wanted> {
        let given = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
        let wanted = Wanted {
            serial: given(&self.token_serial),
            label: given(&self.token_label),
            reader_serial: given(&self.reader_serial),
        };
        (wanted != Wanted::default()).then_some(wanted)
    }

    /// What the token can take.
    pub fn limits(&self) -> Limits {
        let profile = self
            .limits
            .unwrap_or_else(|| module::profile(&self.pkcs11_library));
        profile.limits()
    }

    /// What becomes of what foreign programs print.
    pub fn output(&self) -> Output {
        match self.show_module_output {
            true => Output::Shown,
            false => Output::Counted,
        }
    }

    /// How the token is read through.
    pub fn passes(&self) -> Passes {
        Passes {
            every: self.pass_interval.max(Duration::from_secs(1)),
            renewal: match self.module_caches {
                Caches::Auto => Renewal::of(&self.pkcs11_library),
                Caches::Yes => Renewal::EachPass,
                Caches::No => Renewal::Never,
            },
            exclusive: self.exclusive,
        }
    }
}

#[cfg(test)]
mod tests {
    use trustplane_process::args::{BindAddress, parse_from};

    use super::*;

    fn parse(more: &[&str]) -> ServeArgs {
        let argv = [
            "serve",
            "--device-name=d",
            "--pkcs11-library=/lib/opensc-pkcs11.so",
        ];
        let argv: Vec<&str> = argv.iter().chain(more).copied().collect();
        parse_from(argv, |_| None).unwrap()
    }

    #[test]
    fn the_arguments_of_the_manager_are_understood() {
        let args = parse(&[
            "--slot-id=-1",
            "--token-label=",
            "--reader-serial=DENK01",
            "--pin-secret=vault/pin/pin",
            "--record=vault/agent",
            "--limits=pico-hsm",
            "--pcscd=/usr/sbin/pcscd",
            "--agent-name=hsm-agent-d-denk01",
            "--auto-provision",
        ]);
        let wanted = args.wanted().unwrap();
        assert_eq!(
            (wanted.label, wanted.reader_serial.as_deref()),
            (None, Some("DENK01"))
        );
        assert_eq!(
            (args.port, args.health_port, args.limits),
            (9090, 8093, Some(Profile::PicoHsm))
        );
        assert_eq!(args.passes().renewal, Renewal::EachPass);
        assert_eq!(
            args.common.admin_bind_address,
            BindAddress::Off,
            "the health port is enough"
        );
    }

    #[test]
    fn a_token_of_opensc_has_its_limits_unless_others_are_said() {
        let of = |more: &[&str]| parse(&[&["--pin-file=/pin"], more].concat()).limits();
        assert_eq!(of(&[]), Profile::Opensc.limits());
        assert_eq!(of(&["--limits=software"]), Limits::default());
        let mut args = parse(&["--pin-file=/pin"]);
        args.pkcs11_library = "/lib/libsofthsm2.so".into();
        assert_eq!(args.limits(), Limits::default());
    }

    #[test]
    fn a_token_is_never_chosen_for_want_of_others() {
        assert_eq!(parse(&["--pin-file=/pin", "--slot-id=0"]).wanted(), None);
    }
}
