// Reads one table's rows with go-mysql's BinlogSyncer and writes them to Kafka with franz-go.
//
// A lower bound, not a product: a small envelope, no schema tracking, no state to resume from, values as the library
// returns them. It runs until it is stopped.
//
// gomysql HOST PORT USER PASSWORD FILE TABLE KAFKA TOPIC SERVER_ID
package main

import (
	"context"
	"encoding/json"
	"log"
	"os"
	"strconv"
	"time"

	"github.com/go-mysql-org/go-mysql/mysql"
	"github.com/go-mysql-org/go-mysql/replication"
	"github.com/twmb/franz-go/pkg/kgo"
)

func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

// named returns a row as a JSON object; nil stays null.
func named(table *replication.TableMapEvent, row []any) map[string]any {
	if row == nil {
		return nil
	}
	object := make(map[string]any, len(row))
	for i, value := range row {
		if bytes, ok := value.([]byte); ok {
			switch table.ColumnType[i] {
			case mysql.MYSQL_TYPE_JSON:
				value = json.RawMessage(bytes)
			case mysql.MYSQL_TYPE_BLOB:
				value = string(bytes)
			}
		}
		object[string(table.ColumnName[i])] = value
	}
	return object
}

// images returns the kind of a change and its number of row images.
func images(kind replication.EventType) (string, int) {
	switch kind {
	case replication.UPDATE_ROWS_EVENTv2:
		return "u", 2
	case replication.DELETE_ROWS_EVENTv2:
		return "d", 1
	}
	return "c", 1
}

func main() {
	host, user, password := os.Args[1], os.Args[3], os.Args[4]
	file, wanted, broker, topic := os.Args[5], os.Args[6], os.Args[7], os.Args[8]
	port, err := strconv.ParseUint(os.Args[2], 10, 16)
	must(err)
	serverID, err := strconv.ParseUint(os.Args[9], 10, 32)
	must(err)
	syncer := replication.NewBinlogSyncer(replication.BinlogSyncerConfig{
		ServerID: uint32(serverID), Flavor: "mysql", Host: host, Port: uint16(port), User: user,
		Password: password, RecvBufferSize: 1 << 20,
	})
	stream, err := syncer.StartSync(mysql.Position{Name: file, Pos: 4})
	must(err)
	client, err := kgo.NewClient(
		kgo.SeedBrokers(broker), kgo.DefaultProduceTopic(topic), kgo.RequiredAcks(kgo.AllISRAcks()),
		kgo.ProducerBatchCompression(kgo.Lz4Compression()), kgo.ProducerLinger(5*time.Millisecond),
		kgo.ProducerBatchMaxBytes(1_000_000), kgo.MaxBufferedRecords(50_000),
	)
	must(err)
	ctx := context.Background()
	gtid := ""
	for {
		event, err := stream.GetEvent(ctx)
		must(err)
		switch body := event.Event.(type) {
		case *replication.GTIDEvent:
			gtid = strconv.FormatInt(body.GNO, 10)
		case *replication.RowsEvent:
			if string(body.Table.Table) != wanted {
				continue
			}
			op, step := images(event.Header.EventType)
			for i := 0; i < len(body.Rows); i += step {
				var before, after []any
				switch op {
				case "c":
					after = body.Rows[i]
				case "u":
					before, after = body.Rows[i], body.Rows[i+1]
				case "d":
					before = body.Rows[i]
				}
				value, err := json.Marshal(map[string]any{
					"op": op, "before": named(body.Table, before), "after": named(body.Table, after),
					"ts": event.Header.Timestamp,
					"source": map[string]any{
						"file": file, "pos": event.Header.LogPos, "gtid": gtid,
						"db": string(body.Table.Schema), "table": wanted, "row": i,
					},
				})
				must(err)
				key, err := json.Marshal(body.Rows[i][0])
				must(err)
				client.Produce(ctx, &kgo.Record{Key: key, Value: value}, func(_ *kgo.Record, err error) { must(err) })
			}
		}
	}
}
