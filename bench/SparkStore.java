import java.io.BufferedInputStream;
import java.io.DataInputStream;
import java.io.FileInputStream;
import java.lang.management.ManagementFactory;
import java.util.ArrayList;
import java.util.Map;
import java.util.UUID;

import org.apache.hadoop.conf.Configuration;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.sql.execution.streaming.state.NoPrefixKeyStateEncoderSpec;
import org.apache.spark.sql.execution.streaming.state.StateStore;
import org.apache.spark.sql.execution.streaming.state.StateStoreConf;
import org.apache.spark.sql.execution.streaming.state.StateStoreId;
import org.apache.spark.sql.execution.streaming.state.StateStoreProvider;
import org.apache.spark.sql.execution.streaming.state.StateStoreProvider$;
import org.apache.spark.sql.execution.streaming.state.StateStoreProviderId;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.types.StructType;
import scala.Option;

/**
 * One partition of a state store of Spark, driven as a task drives it, without a query around it.
 *
 * bench/spark_store.py has it compiled inside Spark's JVM by janino, which knows no type arguments and no lambdas.
 */
public class SparkStore {
  private static final String FAMILY = "default";

  private final ArrayList batches = new ArrayList();
  private StateStoreProviderId id;
  private StructType keySchema;
  private StructType valueSchema;
  private StateStoreConf conf;
  private int nextBatch = 0;
  private StateStoreProvider provider;
  private long version;

  /** Before anything else. The version is the one to go on from; 0 is the empty store. */
  public void init(String root, String keySchema, String valueSchema, Map settings, long version) {
    this.id = new StateStoreProviderId(new StateStoreId(root, 0, 0, FAMILY), UUID.randomUUID());
    this.keySchema = StructType.fromDDL(keySchema);
    this.valueSchema = StructType.fromDDL(valueSchema);
    SQLConf sql = new SQLConf();
    for (Object name : settings.keySet()) {
      sql.setConfString((String) name, (String) settings.get(name));
    }
    this.conf = StateStoreConf.apply(sql);
    this.version = version;
    this.provider = newProvider();
  }

  /** Takes a file of put records for a call of batch(); batches take turns. */
  public void prepare(String file) throws Exception {
    ArrayList keys = new ArrayList();
    ArrayList values = new ArrayList();
    DataInputStream records = open(file);
    try {
      UnsafeRow key = row(records, keySchema.length());
      while (key != null) {
        keys.add(key);
        values.add(row(records, valueSchema.length()));
        key = row(records, keySchema.length());
      }
    } finally {
      records.close();
    }
    UnsafeRow[] keyRows = (UnsafeRow[]) keys.toArray(new UnsafeRow[0]);
    UnsafeRow[] valueRows = (UnsafeRow[]) values.toArray(new UnsafeRow[0]);
    batches.add(new UnsafeRow[][] {keyRows, valueRows});
  }

  /** Puts every record of a file and commits them as one version. */
  public void fill(String file) throws Exception {
    StateStore store = provider.getStore(version, Option.empty(), false, false);
    DataInputStream records = open(file);
    try {
      UnsafeRow key = row(records, keySchema.length());
      while (key != null) {
        store.put(key, row(records, valueSchema.length()), FAMILY);
        key = row(records, keySchema.length());
      }
    } finally {
      records.close();
    }
    version = store.commit();
  }

  /** One batch: get all its keys, put all its values, commit. Nanoseconds of opening the store, get, put and commit. */
  public long[] batch() {
    UnsafeRow[][] batch = (UnsafeRow[][]) batches.get(nextBatch++ % batches.size());
    UnsafeRow[] keys = batch[0];
    UnsafeRow[] values = batch[1];
    long start = System.nanoTime();
    StateStore store = provider.getStore(version, Option.empty(), false, false);
    long opened = System.nanoTime();
    long found = 0;
    for (int i = 0; i < keys.length; i++) {
      if (store.get(keys[i], FAMILY) != null) {
        found++;
      }
    }
    long got = System.nanoTime();
    for (int i = 0; i < keys.length; i++) {
      store.put(keys[i], values[i], FAMILY);
    }
    long put = System.nanoTime();
    version = store.commit();
    long committed = System.nanoTime();
    if (found != keys.length) {
      throw new IllegalStateException("found " + found + " of " + keys.length + " keys");
    }
    return new long[] {opened - start, got - opened, put - got, committed - put};
  }

  /** Loads the version that the store is at in a new provider, which holds nothing; gives the number of keys. */
  public long loadCold() {
    provider.close();
    provider = newProvider();
    StateStore store = provider.getStore(version, Option.empty(), false, false);
    long keys = store.metrics().numKeys();
    store.abort();
    return keys;
  }

  /** What Spark's maintenance thread does: a snapshot, if one is due, and clean-up. */
  public void maintain() {
    provider.doMaintenance();
  }

  public long processId() {
    return ManagementFactory.getRuntimeMXBean().getPid();
  }

  public void close() {
    provider.close();
  }

  private StateStoreProvider newProvider() {
    Configuration hadoop = new Configuration();
    hadoop.set("sql.streaming.runId", id.queryRunId().toString());
    return StateStoreProvider$.MODULE$.createAndInit(
        id, keySchema, valueSchema, new NoPrefixKeyStateEncoderSpec(keySchema), false, conf, hadoop, false,
        Option.empty());
  }

  private static DataInputStream open(String file) throws Exception {
    return new DataInputStream(new BufferedInputStream(new FileInputStream(file), 1 << 20));
  }

  /** The next row of a file of records; null at the end mark. */
  private static UnsafeRow row(DataInputStream records, int columns) throws Exception {
    int size = records.readInt();
    if (size < 0) {
      return null;
    }
    byte[] bytes = new byte[size];
    records.readFully(bytes);
    UnsafeRow row = new UnsafeRow(columns);
    row.pointTo(bytes, size);
    return row;
  }
}
