package main

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	registration "k8s.io/kubelet/pkg/apis/pluginregistration/v1"
)

func connect(t *testing.T, socket string) *grpc.ClientConn {
	t.Helper()
	insecure := grpc.WithTransportCredentials(insecure.NewCredentials())
	connection, err := grpc.NewClient("unix:"+socket, insecure, grpc.WithDefaultCallOptions(grpc.WaitForReady(true)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { connection.Close() })
	return connection
}

// start runs a program under its name; the returned function waits for its end.
func start(ctx context.Context, name string, args ...string) func() error {
	ended := make(chan error, 1)
	go func() { ended <- run(ctx, name, args) }()
	return func() error {
		select {
		case err := <-ended:
			return err
		case <-time.After(10 * time.Second):
			return errors.New(name + " does not end")
		}
	}
}

func freeAddress(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().String()
}

func TestRegistrarTellsKubeletOfTheDriverAndLeavesNoSocket(t *testing.T) {
	directory := t.TempDir()
	socket, registered := filepath.Join(directory, "csi.sock"), filepath.Join(directory, "csi.test-reg.sock")
	health := freeAddress(t)
	ctx, end := context.WithCancel(t.Context())
	// The registrar comes first: it waits for the driver.
	registrarEnded := start(ctx, "csi-node-driver-registrar", "-csi-address", socket, "-plugin-registration-path", directory,
		"-kubelet-registration-path", "/var/lib/kubelet/plugins/csi.test/csi.sock", "-http-endpoint", health, "-v=5")
	t.Setenv("MY_NODE_NAME", "node-7")
	if err := os.WriteFile(socket, nil, 0o600); err != nil { // the rest of a driver that was killed
		t.Fatal(err)
	}
	driverEnded := start(ctx, "spiffe-csi-driver", "-workload-api-socket-dir", directory, "-csi-socket-path", socket,
		"-plugin-name", "csi.test")

	kubelet := registration.NewRegistrationClient(connect(t, registered))
	info, err := kubelet.GetInfo(ctx, &registration.InfoRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if info.Type != "CSIPlugin" || info.Name != "csi.test" || info.Endpoint != "/var/lib/kubelet/plugins/csi.test/csi.sock" {
		t.Errorf("kubelet is told %v", info)
	}
	answer, err := http.Get("http://" + health + "/healthz")
	if err != nil || answer.StatusCode != http.StatusOK {
		t.Errorf("the health is %v, %v", answer, err)
	}
	node, err := csi.NewNodeClient(connect(t, socket)).NodeGetInfo(ctx, &csi.NodeGetInfoRequest{})
	if err != nil || node.NodeId != "node-7" {
		t.Errorf("the node is %v, %v", node, err)
	}

	end()
	if err := errors.Join(registrarEnded(), driverEnded()); err != nil {
		t.Error(err)
	}
	for _, path := range []string{socket, registered} {
		if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s stays: %v", path, err)
		}
	}
}

func TestRegistrarEndsWithAnErrorWhenKubeletRefusesTheDriver(t *testing.T) {
	directory := t.TempDir()
	socket := filepath.Join(directory, "csi.sock")
	start(t.Context(), "spiffe-csi-driver", "-workload-api-socket-dir", directory, "-csi-socket-path", socket, "-node-id", "n")
	ended := start(t.Context(), "csi-node-driver-registrar", "-csi-address", socket, "-plugin-registration-path", directory,
		"-kubelet-registration-path", "/csi.sock")
	kubelet := registration.NewRegistrationClient(connect(t, filepath.Join(directory, "csi.spiffe.io-reg.sock")))
	refusal := &registration.RegistrationStatus{Error: "a reason"}
	if _, err := kubelet.NotifyRegistrationStatus(t.Context(), refusal); err != nil {
		t.Fatal(err)
	}
	if err := ended(); err == nil || !strings.Contains(err.Error(), "a reason") {
		t.Errorf("it ends with %v", err)
	}
}

func TestProgramsRefuseFlagsThatDoNotGoTogether(t *testing.T) {
	for name, args := range map[string][]string{
		"spiffe-csi-driver":         {"-node-id", "n"},
		"csi-node-driver-registrar": {"-kubelet-registration-path", "/s", "-health-port", "1", "-http-endpoint", ":2"},
		"csi-stand-in":              nil,
	} {
		if err := run(t.Context(), name, args); err == nil {
			t.Errorf("%s %v is accepted", name, args)
		}
	}
}

func request() *csi.NodePublishVolumeRequest {
	return &csi.NodePublishVolumeRequest{
		VolumeId:      "volume",
		TargetPath:    "/absent/target",
		Readonly:      true,
		VolumeContext: map[string]string{ephemeral: "true"},
		VolumeCapability: &csi.VolumeCapability{
			AccessType: &csi.VolumeCapability_Mount{Mount: &csi.VolumeCapability_MountVolume{}},
			AccessMode: &csi.VolumeCapability_AccessMode{Mode: csi.VolumeCapability_AccessMode_SINGLE_NODE_WRITER},
		},
	}
}

func TestDriverRefusesAVolumeThatIsNotReadOnlyAndEphemeral(t *testing.T) {
	if defect := defectOf(request()); defect != "" {
		t.Errorf("a good request is refused: %s", defect)
	}
	for name, spoil := range map[string]func(*csi.NodePublishVolumeRequest){
		"no ID":           func(r *csi.NodePublishVolumeRequest) { r.VolumeId = "" },
		"no target":       func(r *csi.NodePublishVolumeRequest) { r.TargetPath = "" },
		"no capability":   func(r *csi.NodePublishVolumeRequest) { r.VolumeCapability = nil },
		"a file system":   func(r *csi.NodePublishVolumeRequest) { r.VolumeCapability.GetMount().FsType = "ext4" },
		"no access mode":  func(r *csi.NodePublishVolumeRequest) { r.VolumeCapability.AccessMode = nil },
		"writable":        func(r *csi.NodePublishVolumeRequest) { r.Readonly = false },
		"a volume object": func(r *csi.NodePublishVolumeRequest) { r.VolumeContext = nil },
	} {
		spoilt := request()
		spoil(spoilt)
		if defectOf(spoilt) == "" {
			t.Errorf("%s is accepted", name)
		}
	}
}

func TestVolumesAreMountedOnceAndUnmountedFromWhatIsLeft(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("mounts need root")
	}
	// In a namespace that ends with this thread, which is not given back.
	runtime.LockOSThread()
	if err := syscall.Unshare(syscall.CLONE_NEWNS); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""); err != nil {
		t.Fatal(err)
	}
	driver := &driver{directory: t.TempDir()}
	if err := os.WriteFile(filepath.Join(driver.directory, "api.sock"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	target := filepath.Join(t.TempDir(), "mount")
	for range 2 {
		if err := driver.mount(target); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := os.Stat(filepath.Join(target, "api.sock")); err != nil {
		t.Error(err)
	}
	for range 2 {
		if err := unmount(target); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := os.Stat(target); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the target stays: %v", err)
	}
	if _, err := os.Stat(filepath.Join(driver.directory, "api.sock")); err != nil {
		t.Errorf("the directory itself lost its content: %v", err)
	}
}
