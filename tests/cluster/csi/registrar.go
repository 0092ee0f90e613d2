package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"net/http"
	"os"
	"path/filepath"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	registration "k8s.io/kubelet/pkg/apis/pluginregistration/v1"
)

// registrar tells kubelet, which finds its socket and calls it, where a CSI driver listens.
type registrar struct {
	registration.UnimplementedRegistrationServer
	driver   string
	endpoint string
	// refused gets the reason when kubelet does not take the driver.
	refused func(reason error)
}

func runRegistrar(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("csi-node-driver-registrar", flag.ContinueOnError)
	address := flags.String("csi-address", "/run/csi/socket", "the socket of the driver, as this program sees it")
	endpoint := flags.String("kubelet-registration-path", "", "the socket of the driver, as kubelet sees it")
	directory := flags.String("plugin-registration-path", "/registration", "where kubelet looks for sockets")
	port := flags.Int("health-port", 0, "the port of /healthz on every address")
	health := flags.String("http-endpoint", "", "the address of /healthz; not together with -health-port")
	flags.Int("v", 0, "taken, without effect")
	if err := flags.Parse(args); err != nil {
		return err
	}
	switch {
	case *endpoint == "":
		return errors.New("-kubelet-registration-path is required")
	case *port > 0 && *health != "":
		return errors.New("only one of -health-port and -http-endpoint may be given")
	case *port > 0:
		*health = fmt.Sprintf(":%d", *port)
	}
	name, err := nameOfDriver(ctx, *address)
	if err != nil {
		return fmt.Errorf("ask the driver at %s for its name: %w", *address, err)
	}
	socket := filepath.Join(*directory, name+"-reg.sock")
	return register(ctx, registrar{driver: name, endpoint: *endpoint}, socket, *health)
}

// register answers kubelet until the context ends, kubelet refuses the driver, or a server fails.
func register(ctx context.Context, registrar registrar, socket, health string) error {
	ctx, end := context.WithCancelCause(ctx)
	registrar.refused = end
	if health != "" {
		go func() { end(http.ListenAndServe(health, healthOf(socket))) }()
	}
	server := grpc.NewServer()
	registration.RegisterRegistrationServer(server, registrar)
	if err := serve(ctx, server, socket); err != nil {
		return err
	}
	if cause := context.Cause(ctx); !errors.Is(cause, context.Canceled) {
		return cause
	}
	return nil
}

// nameOfDriver waits for the driver, however long it takes to start.
func nameOfDriver(ctx context.Context, address string) (string, error) {
	insecure := grpc.WithTransportCredentials(insecure.NewCredentials())
	connection, err := grpc.NewClient("unix:"+address, insecure, grpc.WithDefaultCallOptions(grpc.WaitForReady(true)))
	if err != nil {
		return "", err
	}
	defer connection.Close()
	info, err := csi.NewIdentityClient(connection).GetPluginInfo(ctx, &csi.GetPluginInfoRequest{})
	return info.GetName(), err
}

func (r registrar) GetInfo(context.Context, *registration.InfoRequest) (*registration.PluginInfo, error) {
	return &registration.PluginInfo{
		Type:              registration.CSIPlugin,
		Name:              r.driver,
		Endpoint:          r.endpoint,
		SupportedVersions: []string{"1.0.0"},
	}, nil
}

func (r registrar) NotifyRegistrationStatus(
	_ context.Context, status *registration.RegistrationStatus,
) (*registration.RegistrationStatusResponse, error) {
	if status.GetPluginRegistered() {
		log.Printf("kubelet has registered %s", r.driver)
	} else {
		r.refused(fmt.Errorf("kubelet refused %s: %s", r.driver, status.GetError()))
	}
	return &registration.RegistrationStatusResponse{}, nil
}

// healthOf says that all is well while the socket is there.
func healthOf(socket string) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/healthz", func(answer http.ResponseWriter, _ *http.Request) {
		if _, err := os.Stat(socket); err != nil {
			http.Error(answer, err.Error(), http.StatusNotFound)
			return
		}
		fmt.Fprint(answer, "ok")
	})
	return mux
}
