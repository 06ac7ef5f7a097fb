import com.alibaba.otter.canal.connector.core.producer.MQDestination;
import com.alibaba.otter.canal.connector.core.util.Callback;
import com.alibaba.otter.canal.connector.kafka.producer.CanalKafkaProducer;
import com.alibaba.otter.canal.instance.manager.CanalInstanceWithManager;
import com.alibaba.otter.canal.instance.manager.model.Canal;
import com.alibaba.otter.canal.instance.manager.model.CanalParameter;
import com.alibaba.otter.canal.protocol.ClientIdentity;
import com.alibaba.otter.canal.protocol.Message;
import com.alibaba.otter.canal.server.embedded.CanalServerWithEmbedded;
import java.io.FileReader;
import java.net.InetSocketAddress;
import java.util.List;
import java.util.Properties;
import java.util.concurrent.TimeUnit;

/**
 * `CanalMain PROPERTIES`: Canal's server and Kafka producer, started without its launcher and consoles.
 *
 * <p>The settings that its launcher reads from a folder come from one file. Parallel parsing is off, as it slows small
 * transactions on two cores. A batch is acknowledged to Canal after Kafka has acknowledged it.
 */
public class CanalMain {
  private static final String DESTINATION = "bench";
  private static volatile boolean isEnding = false;

  public static void main(String[] arguments) throws Exception {
    Properties settings = new Properties();
    try (FileReader reader = new FileReader(arguments[0])) {
      settings.load(reader);
    }
    String filter = settings.getProperty("filter");
    CanalServerWithEmbedded server = CanalServerWithEmbedded.instance();
    server.setCanalInstanceGenerator(
        name -> new CanalInstanceWithManager(instance(name, settings), filter));
    server.start();
    server.start(DESTINATION);
    ClientIdentity client = new ClientIdentity(DESTINATION, (short) 1001, filter);
    server.subscribe(client);
    forward(server, client, settings);
  }

  private static Canal instance(String name, Properties settings) {
    CanalParameter parameter = new CanalParameter();
    String meta = settings.getProperty("meta");
    parameter.setMetaMode(
        meta == null ? CanalParameter.MetaMode.MEMORY : CanalParameter.MetaMode.LOCAL_FILE);
    parameter.setDataDir(meta);
    parameter.setHaMode(CanalParameter.HAMode.HEARTBEAT);
    parameter.setIndexMode(CanalParameter.IndexMode.MEMORY);
    parameter.setStorageMode(CanalParameter.StorageMode.MEMORY);
    parameter.setStorageBatchMode(CanalParameter.BatchMode.MEMSIZE);
    parameter.setMemoryStorageBufferSize(16 * 1024);
    parameter.setMemoryStorageBufferMemUnit(1024);
    parameter.setMemoryStorageRawEntry(false);
    parameter.setSourcingType(CanalParameter.SourcingType.MYSQL);
    int port = Integer.parseInt(settings.getProperty("port"));
    parameter.setDbAddresses(List.of(new InetSocketAddress(settings.getProperty("host"), port)));
    parameter.setDbUsername(settings.getProperty("user"));
    parameter.setDbPassword(settings.getProperty("password"));
    parameter.setPositions(List.of(settings.getProperty("position")));
    parameter.setSlaveId(Long.parseLong(settings.getProperty("server_id")));
    parameter.setDefaultConnectionTimeoutInSeconds(30);
    parameter.setConnectionCharset("UTF-8");
    parameter.setConnectionCharsetNumber((byte) 33);
    parameter.setReceiveBufferSize(16 * 1024);
    parameter.setSendBufferSize(16 * 1024);
    parameter.setDetectingEnable(false);
    parameter.setDefaultDatabaseName(settings.getProperty("database"));
    parameter.setTsdbEnable(false);
    parameter.setGtidEnable(false);
    parameter.setParallel(false);
    parameter.setTransactionSize(1024);
    parameter.setFilterTableError(false);
    parameter.setDdlIsolation(false);
    Canal canal = new Canal();
    canal.setId(1L);
    canal.setName(name);
    canal.setCanalParameter(parameter);
    return canal;
  }

  private static void forward(
      CanalServerWithEmbedded server, ClientIdentity client, Properties settings) {
    CanalKafkaProducer producer = new CanalKafkaProducer();
    producer.init(settings);
    MQDestination destination = new MQDestination();
    destination.setCanalDestination(DESTINATION);
    destination.setTopic(settings.getProperty("topic"));
    destination.setDynamicTopic(settings.getProperty("dynamicTopic"));
    destination.setPartition(0);
    int batch = Integer.parseInt(settings.getProperty("batch"));
    Callback orEnd =
        new Callback() {
          @Override
          public void commit() {}

          @Override
          public void rollback() {
            System.err.println("Kafka refused a batch");
            Runtime.getRuntime().halt(1);
          }
        };
    Thread own = Thread.currentThread();
    Runtime.getRuntime()
        .addShutdownHook(
            new Thread(
                () -> {
                  isEnding = true;
                  try {
                    own.join(20_000);
                  } catch (InterruptedException interrupted) {
                    own.interrupt();
                  }
                }));
    while (!isEnding) {
      Message message = server.getWithoutAck(client, batch, 100L, TimeUnit.MILLISECONDS);
      if (message.getId() != -1) {
        producer.send(destination, message, orEnd);
        server.ack(client, message.getId());
      }
    }
    // It writes the cursor, where that is in a file.
    server.stop(DESTINATION);
    server.stop();
  }
}
