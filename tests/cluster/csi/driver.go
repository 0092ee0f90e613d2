package main

import (
	"context"
	"errors"
	"flag"
	"io/fs"
	"log"
	"os"
	"syscall"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// ephemeral is the word by which kubelet tells a driver that a volume is written into the pod.
const ephemeral = "csi.storage.k8s.io/ephemeral"

// driver mounts one directory of the node into pods.
type driver struct {
	csi.UnimplementedIdentityServer
	csi.UnimplementedNodeServer
	name      string
	node      string
	directory string
}

func runDriver(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("spiffe-csi-driver", flag.ContinueOnError)
	node := flags.String("node-id", "", "the name of the node; by default from the environment")
	nodeVariable := flags.String("node-id-env", "MY_NODE_NAME", "the variable with the name of the node")
	name := flags.String("plugin-name", "csi.spiffe.io", "the name of the driver")
	socket := flags.String("csi-socket-path", "/spiffe-csi/csi.sock", "the socket that kubelet calls")
	directory := flags.String("workload-api-socket-dir", "", "the directory that pods get")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *node == "" {
		*node = os.Getenv(*nodeVariable)
	}
	if *node == "" || *directory == "" {
		return errors.New("the name of the node and -workload-api-socket-dir are required")
	}
	driver := &driver{name: *name, node: *node, directory: *directory}
	server := grpc.NewServer()
	csi.RegisterIdentityServer(server, driver)
	csi.RegisterNodeServer(server, driver)
	return serve(ctx, server, *socket)
}

func (d *driver) GetPluginInfo(context.Context, *csi.GetPluginInfoRequest) (*csi.GetPluginInfoResponse, error) {
	return &csi.GetPluginInfoResponse{Name: d.name, VendorVersion: "stand-in"}, nil
}

func (d *driver) GetPluginCapabilities(
	context.Context, *csi.GetPluginCapabilitiesRequest,
) (*csi.GetPluginCapabilitiesResponse, error) {
	return &csi.GetPluginCapabilitiesResponse{}, nil
}

func (d *driver) Probe(context.Context, *csi.ProbeRequest) (*csi.ProbeResponse, error) {
	return &csi.ProbeResponse{}, nil
}

func (d *driver) NodeGetInfo(context.Context, *csi.NodeGetInfoRequest) (*csi.NodeGetInfoResponse, error) {
	return &csi.NodeGetInfoResponse{NodeId: d.node}, nil
}

func (d *driver) NodeGetCapabilities(
	context.Context, *csi.NodeGetCapabilitiesRequest,
) (*csi.NodeGetCapabilitiesResponse, error) {
	return &csi.NodeGetCapabilitiesResponse{}, nil
}

// NodePublishVolume mounts the directory at the target path. The mount is writable, as that of the original is: kubelet
// mounts it read-only into the container because the volume says readOnly, and a volume that does not is refused.
func (d *driver) NodePublishVolume(
	_ context.Context, request *csi.NodePublishVolumeRequest,
) (*csi.NodePublishVolumeResponse, error) {
	if defect := defectOf(request); defect != "" {
		log.Printf("refused to mount volume %q: %s", request.GetVolumeId(), defect)
		return nil, status.Error(codes.InvalidArgument, defect)
	}
	target := request.GetTargetPath()
	if err := d.mount(target); err != nil {
		log.Printf("failed to mount volume %q: %v", request.GetVolumeId(), err)
		return nil, status.Errorf(codes.Internal, "mount %s: %v", target, err)
	}
	log.Printf("mounted volume %q at %s", request.GetVolumeId(), target)
	return &csi.NodePublishVolumeResponse{}, nil
}

// NodeUnpublishVolume unmounts the target path and removes it. A path that is not mounted, or is not there, is no error.
func (d *driver) NodeUnpublishVolume(
	_ context.Context, request *csi.NodeUnpublishVolumeRequest,
) (*csi.NodeUnpublishVolumeResponse, error) {
	target := request.GetTargetPath()
	if request.GetVolumeId() == "" || target == "" {
		return nil, status.Error(codes.InvalidArgument, "the volume ID and the target path are required")
	}
	if err := unmount(target); err != nil {
		log.Printf("failed to unmount volume %q: %v", request.GetVolumeId(), err)
		return nil, status.Errorf(codes.Internal, "unmount %s: %v", target, err)
	}
	log.Printf("unmounted volume %q at %s", request.GetVolumeId(), target)
	return &csi.NodeUnpublishVolumeResponse{}, nil
}

// defectOf says why a volume cannot be mounted; the words of the last two cases are the original's.
func defectOf(request *csi.NodePublishVolumeRequest) string {
	capability := request.GetVolumeCapability()
	mount := capability.GetMount()
	switch {
	case request.GetVolumeId() == "":
		return "the volume ID is required"
	case request.GetTargetPath() == "":
		return "the target path is required"
	case mount == nil || mount.GetFsType() != "" || len(mount.GetMountFlags()) > 0:
		return "the volume must be a mount without a type of file system and without options"
	case capability.GetAccessMode() == nil:
		return "the access mode is required"
	case capability.GetAccessMode().GetMode() == csi.VolumeCapability_AccessMode_SINGLE_NODE_READER_ONLY:
		return "request volume capability access mode is not valid"
	case !request.GetReadonly():
		return "pod.spec.volumes[].csi.readOnly must be set to 'true'"
	case request.GetVolumeContext()[ephemeral] != "true":
		return "only ephemeral volumes are supported"
	}
	return ""
}

func (d *driver) mount(target string) error {
	if err := os.Mkdir(target, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	source, err := os.Stat(d.directory)
	if err != nil {
		return err
	}
	// kubelet asks again when it has not heard the answer.
	if there, err := os.Stat(target); err != nil || os.SameFile(source, there) {
		return err
	}
	return syscall.Mount(d.directory, target, "", syscall.MS_BIND, "")
}

func unmount(target string) error {
	// EINVAL: nothing is mounted here.
	if err := syscall.Unmount(target, 0); err != nil && err != syscall.EINVAL && err != syscall.ENOENT {
		return err
	}
	if err := os.Remove(target); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
