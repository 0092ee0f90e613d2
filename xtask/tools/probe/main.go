// Probe is the one program in the images that the development cluster needs and the product does not: the pause
// container of every pod, and the small server, client and reader with which tests look at a cluster from inside.
//
// It is linked statically and uses nothing but the standard library, so an image of it is this one file.
package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"
)

const usage = `usage: probe [command]

  pause                  wait for SIGTERM or SIGINT and reap orphans (the default)
  hold                   wait and ignore SIGTERM: a pod that must be killed
  serve ADDRESS TEXT     answer every HTTP request with TEXT
  get [flags] URL        print the body of a URL; fails unless the status is 2xx
  resolve [flags] NAME   print the addresses of NAME, one per line
  cat FILE...            print files
  follow FILE            print the time and the content of a file, again whenever it changes
`

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "probe:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	command := "pause"
	if len(args) > 0 {
		command, args = args[0], args[1:]
	}
	switch {
	case command == "pause" && len(args) == 0:
		pause(syscall.SIGTERM, syscall.SIGINT)
		return nil
	case command == "hold" && len(args) == 0:
		signal.Ignore(syscall.SIGTERM, syscall.SIGINT)
		pause()
		return nil
	case command == "serve" && len(args) == 2:
		return serve(args[0], args[1])
	case command == "get":
		return get(args)
	case command == "resolve":
		return resolve(args)
	case command == "cat" && len(args) > 0:
		return cat(args)
	case command == "follow" && len(args) == 1:
		follow(args[0])
		return nil
	}
	return errors.New(usage)
}

// pause reaps orphans until one of the signals arrives. As process 1 of a pod that shares its process namespace it
// inherits every orphan of the pod, and nobody else would collect them.
func pause(until ...os.Signal) {
	children := make(chan os.Signal, 1)
	signal.Notify(children, syscall.SIGCHLD)
	end := make(chan os.Signal, 1)
	if len(until) > 0 {
		signal.Notify(end, until...)
	}
	for {
		select {
		case <-end:
			return
		case <-children:
			for {
				pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil)
				if err != nil || pid <= 0 {
					break
				}
			}
		}
	}
}

func serve(address, text string) error {
	server := &http.Server{
		Addr:              address,
		ReadHeaderTimeout: 5 * time.Second,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			fmt.Fprintf(os.Stdout, "%s %s from %s\n", r.Method, r.URL.Path, r.RemoteAddr)
			fmt.Fprintln(w, text)
		}),
	}
	signals, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	stopped := make(chan error, 1)
	go func() {
		<-signals.Done()
		deadline, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		defer cancel()
		stopped <- server.Shutdown(deadline)
	}()
	if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return <-stopped
}

func get(args []string) error {
	flags := flag.NewFlagSet("get", flag.ContinueOnError)
	timeout := flags.Duration("timeout", 5*time.Second, "give up after this long")
	authority := flags.String("ca", "", "file with the certificate authorities to trust")
	bearer := flags.String("bearer", "", "file with a bearer token to send")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() != 1 {
		return errors.New("get takes one URL")
	}
	request, err := http.NewRequest(http.MethodGet, flags.Arg(0), nil)
	if err != nil {
		return err
	}
	if *bearer != "" {
		token, err := os.ReadFile(*bearer)
		if err != nil {
			return err
		}
		request.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(token)))
	}
	transport := &http.Transport{}
	if *authority != "" {
		pem, err := os.ReadFile(*authority)
		if err != nil {
			return err
		}
		pool := x509.NewCertPool()
		if !pool.AppendCertsFromPEM(pem) {
			return fmt.Errorf("%s holds no certificate", *authority)
		}
		transport.TLSClientConfig = &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
	}
	client := &http.Client{Timeout: *timeout, Transport: transport}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if _, err := io.Copy(os.Stdout, response.Body); err != nil {
		return err
	}
	if response.StatusCode/100 != 2 {
		return fmt.Errorf("%s answered %s", flags.Arg(0), response.Status)
	}
	return nil
}

func resolve(args []string) error {
	flags := flag.NewFlagSet("resolve", flag.ContinueOnError)
	timeout := flags.Duration("timeout", 5*time.Second, "give up after this long")
	server := flags.String("server", "", "address and port of the server to ask, instead of the system's")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() != 1 {
		return errors.New("resolve takes one name")
	}
	resolver := &net.Resolver{PreferGo: true}
	if *server != "" {
		resolver.Dial = func(ctx context.Context, network, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, network, *server)
		}
	}
	deadline, cancel := context.WithTimeout(context.Background(), *timeout)
	defer cancel()
	addresses, err := resolver.LookupHost(deadline, flags.Arg(0))
	if err != nil {
		return err
	}
	for _, address := range addresses {
		fmt.Println(address)
	}
	return nil
}

func cat(files []string) error {
	for _, file := range files {
		in, err := os.Open(file)
		if err != nil {
			return err
		}
		_, err = io.Copy(os.Stdout, in)
		if err := errors.Join(err, in.Close()); err != nil {
			return err
		}
	}
	return nil
}

// follow prints a file until SIGTERM or SIGINT. It looks at the path again each time: kubelet changes a mounted Secret by
// exchanging a link. While the file cannot be read, nothing is printed.
func follow(file string) {
	end := make(chan os.Signal, 1)
	signal.Notify(end, syscall.SIGTERM, syscall.SIGINT)
	look := time.NewTicker(200 * time.Millisecond)
	var shown []byte
	for {
		content, err := os.ReadFile(file)
		if err == nil && (shown == nil || !bytes.Equal(shown, content)) {
			fmt.Printf("%s %s: %s\n", time.Now().UTC().Format(time.TimeOnly), file, content)
			shown = content
		}
		select {
		case <-end:
			return
		case <-look.C:
		}
	}
}
