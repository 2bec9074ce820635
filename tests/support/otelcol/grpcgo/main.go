// SPDX-License-Identifier: Apache-2.0

// Command grpcgo is a plain grpc-go server for tests. It answers every unary call with success and keeps the request's
// bytes:
//
//	grpcgo -listen 127.0.0.1:4317 -dir DIR [-cert FILE -key FILE [-client-ca FILE]] [-max-age 2s] [-delay 300ms]
//	       [-compress gzip] [-busy N -text TEXT -retry 700ms]
//
// DIR receives 000001.otlp, 000002.otlp … (the uncompressed message), each with a .status that holds the gRPC code of the
// answer. -listen takes unix:/PATH, too. The first -busy requests are answered UNAVAILABLE with TEXT and a RetryInfo.
// Everything else is grpc-go's default: 4 MiB per message, ALPN h2 or no connection. SIGTERM ends it; the last line on
// standard output is the server's own account as JSON.
package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/klauspost/compress/zstd"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/encoding"
	_ "google.golang.org/grpc/encoding/gzip"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"
)

// raw passes message bytes through unparsed.
type raw struct{}

func (raw) Name() string                  { return "proto" }
func (raw) Marshal(v any) ([]byte, error) { return *v.(*[]byte), nil }
func (raw) Unmarshal(data []byte, v any) error {
	*v.(*[]byte) = append([]byte(nil), data...)
	return nil
}

// zstandard is what grpc-go does not bring along.
type zstandard struct{}

func (zstandard) Name() string                                 { return "zstd" }
func (zstandard) Compress(w io.Writer) (io.WriteCloser, error) { return zstd.NewWriter(w) }
func (zstandard) Decompress(r io.Reader) (io.Reader, error)    { return zstd.NewReader(r) }

// account is what grpc-go reports about itself.
type account struct {
	sync.Mutex
	Connections int            `json:"connections"`
	Calls       int            `json:"calls"`
	Failed      int            `json:"failed"`
	Bytes       int            `json:"bytes"`      // of messages, uncompressed
	WireBytes   int            `json:"wire_bytes"` // of messages, as they came
	Encodings   map[string]int `json:"encodings"`
	Clients     map[string]int `json:"clients"` // calls by the common name of their certificate
}

func (a *account) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context   { return ctx }
func (a *account) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }

func (a *account) HandleConn(_ context.Context, s stats.ConnStats) {
	a.Lock()
	defer a.Unlock()
	if _, ok := s.(*stats.ConnBegin); ok {
		a.Connections++
	}
}

func clientName(ctx context.Context) string {
	p, ok := peer.FromContext(ctx)
	if !ok {
		return ""
	}
	info, ok := p.AuthInfo.(credentials.TLSInfo)
	if !ok || len(info.State.PeerCertificates) == 0 {
		return ""
	}
	return info.State.PeerCertificates[0].Subject.CommonName
}

func (a *account) HandleRPC(ctx context.Context, s stats.RPCStats) {
	a.Lock()
	defer a.Unlock()
	switch s := s.(type) {
	case *stats.InHeader:
		a.Encodings[s.Compression]++
		if name := clientName(ctx); name != "" {
			a.Clients[name]++
		}
	case *stats.InPayload:
		a.Bytes += s.Length
		a.WireBytes += s.CompressedLength
	case *stats.End:
		a.Calls++
		if s.Error != nil {
			a.Failed++
		}
	}
}

type server struct {
	sync.Mutex
	dir, text, compress string
	busy, count         int
	delay, retry        time.Duration
}

// keep stores the request under its number and its answer's code beside it.
func (s *server) keep(request []byte) (string, bool, error) {
	s.Lock()
	defer s.Unlock()
	s.count++
	base := filepath.Join(s.dir, fmt.Sprintf("%06d", s.count))
	return base, s.count <= s.busy, os.WriteFile(base+".otlp", request, 0o644)
}

func (s *server) answer(busy bool) error {
	if !busy {
		return nil
	}
	answer, err := status.New(codes.Unavailable, s.text).WithDetails(&errdetails.RetryInfo{RetryDelay: durationpb.New(s.retry)})
	if err != nil {
		return err
	}
	return answer.Err()
}

func (s *server) handle(_ any, stream grpc.ServerStream) error {
	var request []byte
	if err := stream.RecvMsg(&request); err != nil {
		return err
	}
	base, busy, err := s.keep(request)
	if err != nil {
		return err
	}
	time.Sleep(s.delay)
	if s.compress != "" {
		if err := grpc.SetSendCompressor(stream.Context(), s.compress); err != nil {
			return err
		}
	}
	answer := s.answer(busy)
	if err := os.WriteFile(base+".status", []byte(status.Code(answer).String()+"\n"), 0o644); err != nil {
		return err
	}
	if answer != nil {
		return answer
	}
	var message []byte
	if s.compress != "" {
		message = bytes.Repeat([]byte{0x0a, 0x00}, 100) // an empty partial_success, long enough to be compressed
	}
	return stream.SendMsg(&message)
}

func secured(cert, key, clientCA string) (grpc.ServerOption, error) {
	pair, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		return nil, err
	}
	config := &tls.Config{Certificates: []tls.Certificate{pair}}
	if clientCA != "" {
		pem, err := os.ReadFile(clientCA)
		if err != nil {
			return nil, err
		}
		config.ClientCAs = x509.NewCertPool()
		config.ClientCAs.AppendCertsFromPEM(pem)
		config.ClientAuth = tls.RequireAndVerifyClientCert
	}
	return grpc.Creds(credentials.NewTLS(config)), nil
}

func listen(address string) (net.Listener, error) {
	if path, ok := strings.CutPrefix(address, "unix:"); ok {
		return net.Listen("unix", path)
	}
	return net.Listen("tcp", address)
}

func main() {
	s := &server{}
	seen := &account{Encodings: map[string]int{}, Clients: map[string]int{}}
	address := flag.String("listen", "127.0.0.1:0", "address to listen on")
	cert := flag.String("cert", "", "certificate")
	key := flag.String("key", "", "its key")
	clientCA := flag.String("client-ca", "", "authority of the clients")
	age := flag.Duration("max-age", 0, "of a connection")
	flag.StringVar(&s.dir, "dir", ".", "folder for the requests")
	flag.StringVar(&s.compress, "compress", "", "coding of the answers")
	flag.DurationVar(&s.delay, "delay", 0, "before each answer")
	flag.IntVar(&s.busy, "busy", 0, "so many requests are refused first")
	flag.StringVar(&s.text, "text", "", "with this text")
	flag.DurationVar(&s.retry, "retry", 0, "and this delay")
	flag.Parse()

	encoding.RegisterCompressor(zstandard{})
	options := []grpc.ServerOption{grpc.ForceServerCodec(raw{}), grpc.UnknownServiceHandler(s.handle), grpc.StatsHandler(seen)}
	if *cert != "" {
		option, err := secured(*cert, *key, *clientCA)
		if err != nil {
			log.Fatal(err)
		}
		options = append(options, option)
	}
	if *age > 0 {
		options = append(options, grpc.KeepaliveParams(keepalive.ServerParameters{MaxConnectionAge: *age}))
	}
	socket, err := listen(*address)
	if err != nil {
		log.Fatal(err)
	}
	grpcServer := grpc.NewServer(options...)
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGTERM, os.Interrupt)
	go func() {
		<-ended
		grpcServer.GracefulStop()
	}()
	if err := grpcServer.Serve(socket); err != nil {
		log.Fatal(err)
	}
	seen.Lock()
	defer seen.Unlock()
	if err := json.NewEncoder(os.Stdout).Encode(seen); err != nil {
		log.Fatal(err)
	}
}
