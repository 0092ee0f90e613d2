// Csi-stand-in takes the place of two programs in the tests: spiffe-csi-driver, which mounts the directory of the SPIFFE
// Workload API into pods, and csi-node-driver-registrar, which tells kubelet of a CSI driver. Neither can be built from
// the Go module proxy.
//
// Its name decides which of the two it is. It takes their documented flags, and kubelet drives it over the CSI and the
// plugin registration API as it drives the originals. It gives no statistics of volumes.
package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"google.golang.org/grpc"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	err := run(ctx, filepath.Base(os.Args[0]), os.Args[1:])
	stop()
	if err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, name string, args []string) error {
	switch name {
	case "spiffe-csi-driver":
		return runDriver(ctx, args)
	case "csi-node-driver-registrar":
		return runRegistrar(ctx, args)
	default:
		return fmt.Errorf("this program is spiffe-csi-driver or csi-node-driver-registrar by its name, not %s", name)
	}
}

// serve answers on a Unix socket until the context ends, and removes the socket. It replaces the socket of a server that
// was killed.
func serve(ctx context.Context, server *grpc.Server, socket string) error {
	if err := os.Remove(socket); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	listener, err := net.Listen("unix", socket)
	if err != nil {
		return err
	}
	defer context.AfterFunc(ctx, server.GracefulStop)()
	log.Printf("listening on %s", socket)
	return server.Serve(listener)
}
