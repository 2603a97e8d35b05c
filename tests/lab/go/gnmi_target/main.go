// Copyright: (c) 2026, rdmaops contributors
// SPDX-License-Identifier: GPL-3.0-or-later

// A gNMI target with counters that grow: what a switch is to a collector. It answers Subscribe with mode STREAM and SAMPLE
// (gNMI specification 0.8.0, section 3.5.1.5.2) for those of its leaves that were asked for, over TLS, for one user.
package main

import (
	"context"
	"crypto/tls"
	"encoding/base64"
	"flag"
	"fmt"
	"log"
	"net"
	"os"
	"strings"
	"time"

	"github.com/openconfig/gnmi/proto/gnmi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

const version = "1.0.0"

type target struct {
	gnmi.UnimplementedGNMIServer
	leaves         []*gnmi.Update
	user, password string
	basic          bool
}

// Credentials are in the metadata (gNMI authentication specification), or, as Cumulus Linux wants them, in a header of RFC 7617.
func (t *target) allowed(ctx context.Context) bool {
	given, _ := metadata.FromIncomingContext(ctx)
	first := func(name string) string {
		return strings.Join(given.Get(name), " ")
	}
	if t.basic {
		want := base64.StdEncoding.EncodeToString([]byte(t.user + ":" + t.password))
		return first("authorization") == "Basic "+want
	}
	return first("username") == t.user && first("password") == t.password
}

func (t *target) Subscribe(stream gnmi.GNMI_SubscribeServer) error {
	if !t.allowed(stream.Context()) {
		return status.Error(codes.Unauthenticated, "authentication failed")
	}
	request, err := stream.Recv()
	if err != nil {
		return err
	}
	list := request.GetSubscribe()
	if list.GetMode() != gnmi.SubscriptionList_STREAM {
		return status.Errorf(codes.Unimplemented, "mode %s", list.GetMode())
	}
	// Until it is told, a target samples as often as it can: here once a second.
	interval := time.Second
	for _, one := range list.GetSubscription() {
		if one.GetMode() != gnmi.SubscriptionMode_SAMPLE {
			return status.Errorf(codes.Unimplemented, "stream mode %s", one.GetMode())
		}
		if one.GetSampleInterval() > 0 {
			interval = time.Duration(one.GetSampleInterval())
		}
	}
	ticks := time.NewTicker(interval)
	defer ticks.Stop()
	for sample := uint64(0); ; sample++ {
		notification := &gnmi.Notification{Timestamp: time.Now().UnixNano(), Prefix: &gnmi.Path{Target: list.GetPrefix().GetTarget()}}
		for _, leaf := range t.leaves {
			if wanted(list, leaf.GetPath()) {
				notification.Update = append(notification.Update, grown(leaf, sample))
			}
		}
		if err := stream.Send(&gnmi.SubscribeResponse{Response: &gnmi.SubscribeResponse_Update{Update: notification}}); err != nil {
			return err
		}
		if sample == 0 {
			if err := stream.Send(&gnmi.SubscribeResponse{Response: &gnmi.SubscribeResponse_SyncResponse{SyncResponse: true}}); err != nil {
				return err
			}
		}
		select {
		case <-stream.Context().Done():
			return nil
		case <-ticks.C:
		}
	}
}

func grown(leaf *gnmi.Update, sample uint64) *gnmi.Update {
	now := proto.Clone(leaf).(*gnmi.Update)
	if counter, ok := now.GetVal().GetValue().(*gnmi.TypedValue_UintVal); ok {
		counter.UintVal += sample
	}
	return now
}

// wanted tells whether a leaf is at or below one of the paths that were asked for; `*` is every key and every name.
func wanted(list *gnmi.SubscriptionList, leaf *gnmi.Path) bool {
	for _, one := range list.GetSubscription() {
		asked := append(append([]*gnmi.PathElem{}, list.GetPrefix().GetElem()...), one.GetPath().GetElem()...)
		if below(asked, leaf.GetElem()) {
			return true
		}
	}
	return false
}

func below(asked, leaf []*gnmi.PathElem) bool {
	if len(asked) > len(leaf) {
		return false
	}
	for i, elem := range asked {
		if elem.GetName() != "*" && elem.GetName() != leaf[i].GetName() {
			return false
		}
		for key, value := range elem.GetKey() {
			if value != "*" && value != leaf[i].GetKey()[key] {
				return false
			}
		}
	}
	return true
}

func main() {
	log.SetFlags(0)
	listen := flag.String("listen", "127.0.0.1:0", "address and port")
	counters := flag.String("counters", "", "gnmi.Notification in protobuf's JSON: the leaves and where they begin")
	certificate := flag.String("cert", "", "certificate of the target")
	key := flag.String("key", "", "its key")
	user := flag.String("user", "", "the user who may look")
	basic := flag.Bool("basic", false, "expect the credentials in a header of RFC 7617")
	told := flag.Bool("version", false, "print the version")
	flag.Parse()
	if *told {
		fmt.Println("gnmi_target " + version)
		return
	}
	text, err := os.ReadFile(*counters)
	if err != nil {
		log.Fatal(err)
	}
	var begin gnmi.Notification
	if err := protojson.Unmarshal(text, &begin); err != nil {
		log.Fatalf("%s: %v", *counters, err)
	}
	pair, err := tls.LoadX509KeyPair(*certificate, *key)
	if err != nil {
		log.Fatal(err)
	}
	listener, err := net.Listen("tcp", *listen)
	if err != nil {
		log.Fatal(err)
	}
	// The certificate is the only one it has: no client's is asked for.
	secure := credentials.NewTLS(&tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12})
	server := grpc.NewServer(grpc.Creds(secure))
	gnmi.RegisterGNMIServer(server, &target{leaves: begin.GetUpdate(), user: *user, password: os.Getenv("GNMI_TARGET_PASSWORD"), basic: *basic})
	fmt.Println(listener.Addr())
	log.Fatal(server.Serve(listener))
}
