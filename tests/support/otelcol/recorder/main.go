// SPDX-License-Identifier: Apache-2.0

// Command recorder is a gRPC proxy on loopback for tests: it stores every request body as it came, forwards the same
// bytes to a Collector and returns its answer.
//
//	recorder -listen 127.0.0.1:0 -forward 127.0.0.1:4317 -dir DIR
//
// DIR receives 000001.otlp, 000002.otlp … (the uncompressed message), and beside each a .status with the gRPC code that
// the Collector answered. The address it listens on is the first line of standard output. SIGTERM ends it.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"sync/atomic"
	"syscall"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	_ "google.golang.org/grpc/encoding/gzip" // requests may come compressed
	"google.golang.org/grpc/status"
)

// raw passes message bytes through unparsed.
type raw struct{}

func (raw) Name() string { return "proto" }

func (raw) Marshal(v any) ([]byte, error) {
	b, ok := v.(*[]byte)
	if !ok {
		return nil, fmt.Errorf("recorder: cannot send %T", v)
	}
	return *b, nil
}

func (raw) Unmarshal(data []byte, v any) error {
	b, ok := v.(*[]byte)
	if !ok {
		return fmt.Errorf("recorder: cannot receive %T", v)
	}
	*b = append([]byte(nil), data...)
	return nil
}

type recorder struct {
	dir     string
	forward *grpc.ClientConn
	count   atomic.Uint64
}

func (r *recorder) exchange(ctx context.Context, method string, request []byte) ([]byte, error) {
	base := filepath.Join(r.dir, fmt.Sprintf("%06d", r.count.Add(1)))
	if err := os.WriteFile(base+".otlp", request, 0o644); err != nil {
		return nil, err
	}
	var response []byte
	answer := r.forward.Invoke(ctx, method, &request, &response, grpc.ForceCodec(raw{}))
	text := fmt.Sprintf("%s %s\n", status.Code(answer), method)
	if err := os.WriteFile(base+".status", []byte(text), 0o644); err != nil {
		return nil, err
	}
	return response, answer
}

// handle serves every method as unary: one request, one response.
func (r *recorder) handle(_ any, stream grpc.ServerStream) error {
	method, _ := grpc.MethodFromServerStream(stream)
	var request []byte
	if err := stream.RecvMsg(&request); err != nil {
		return err
	}
	response, err := r.exchange(stream.Context(), method, request)
	if err != nil {
		return err
	}
	return stream.SendMsg(&response)
}

func run(listen, forward, dir string) error {
	client, err := grpc.NewClient(forward, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer client.Close()
	socket, err := net.Listen("tcp", listen)
	if err != nil {
		return err
	}
	r := &recorder{dir: dir, forward: client}
	server := grpc.NewServer(grpc.ForceServerCodec(raw{}), grpc.UnknownServiceHandler(r.handle))
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGTERM, os.Interrupt)
	go func() {
		<-ended
		server.GracefulStop()
	}()
	fmt.Println(socket.Addr())
	return server.Serve(socket)
}

func main() {
	listen := flag.String("listen", "127.0.0.1:0", "address to listen on")
	forward := flag.String("forward", "127.0.0.1:4317", "address of the Collector")
	dir := flag.String("dir", ".", "folder for the requests")
	flag.Parse()
	if err := run(*listen, *forward, *dir); err != nil {
		log.Fatal(err)
	}
}
