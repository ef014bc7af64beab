"""Words that tell a question about a place from one about an idea, grouped by their role in a sentence. Pure data.

The languages are English, German, French, Spanish, Portuguese, Italian and Dutch; of other languages there are only
question words. All words are case-folded. A word with two roles is in two groups (`link`). A word that means different
things in two of the languages is in the group where it does less harm, or in none (`come`, `se`).
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

# Bits, because a word can have several roles and a question has the roles of all its words.
WHERE: Final = 1
HOW: Final = 2
WHICH: Final = 4
WHETHER: Final = 8
LIST: Final = 16
PLACE: Final = 32
PROBLEM: Final = 64
GONE: Final = 128
EDIT: Final = 256
CONDITION: Final = 512
ALL: Final = 1024
INSIDE: Final = 2048
CHANGE: Final = 4096
THING: Final = 8192

_GROUPS = {
    WHERE: """
        where whereabouts wherever wo wohin woher dónde adónde où onde aonde dove waar waarheen gdzie kde где
        куда nerede nerde hvor
        """,
    HOW: """
        how why explain explains explanation understand compare comparing comparison difference differences
        versus vs tradeoff tradeoffs pros cons advantage advantages disadvantage disadvantages benefit benefits
        meaning mean means example examples sample steps step procedure strategy tips advice recommended
        recommendation recommend reason reasons cause causes purpose impact consequences happens happen works
        instead wie warum wieso weshalb weswegen wodurch womit worin wofür erkläre erklär erklären erklärung
        vergleiche vergleich vergleichen unterschied unterschiede unterscheidet vorteil vorteile nachteile
        bedeutet bedeutung beispiel beispiele schritte strategie tipps rat empfohlen empfohlene empfiehlt
        empfehlt grund gründe ursache ursachen zweck auswirkung auswirkungen folgen passiert funktioniert cómo
        como explica explícame explicar explícanos compara comparar comparación diferencia diferencias
        diferencian ventaja ventajas desventajas significa significado ejemplo ejemplos pasos estrategia consejo
        consejos recomendada recomendado recomiendan recomienda razón razones motivo causa causas propósito
        impacto consecuencias pasa sucede ocurre funciona conviene funcionan comment pourquoi explique expliquer
        explication comparer comparaison différence différences avantages avantage inconvénients signifie
        exemple exemples étapes stratégie conseils recommandé raison raisons conséquences fonctionne explique-me
        porquê comparação diferença diferenças vantagens desvantagens exemplo exemplos passos estratégia dicas
        razão razões motivos acontece consequências funcionam perché spiega spiegare spiegami confronta
        confronto differenza differenze vantaggi svantaggi significato esempio esempi passaggi strategia
        consigli consigliato ragioni conseguenze succede funziona hoe waarom leg uitleg vergelijk vergelijking
        verschil verschillen voordelen nadelen betekent betekenis voorbeeld voorbeelden stappen redenen oorzaak
        oorzaken gevolgen gebeurt hur varför hvordan hvorfor jak dlaczego proč как почему зачем nas\u0131l neden
        niçin
        """,
    WHICH: """
        what whats which who whose was welche welcher welches welchen welchem wer qué cuál cuáles quién quiénes quel
        quelle quels quelles quoi qui qual quais quem quale quali cosa chi wat welke
        """,
    WHETHER: """
        can could should would may must will does do did is are am has have need kann können könnte sollte soll
        sollen muss müssen darf wird werden ist sind läuft brauche benötige gibt lohnt puedo puede pueden podría
        debería debo necesito tengo conviene peut peut-on puis-je dois-je est-ce faut-il devrais posso pode
        podem devo preciso può possono bisogna kan kunnen moet moeten mag zal heb
        """,
    LIST: """
        list lists listing show shows open opens display view views browse see visit goto navigate enumerate
        liste auflisten auflistung zeige zeig zeigt anzeigen öffne öffnen geh gehe lista listar listado listados
        muestra mostrar muéstrame muestrame muéstrenme enumera ver abre abrir visualizar visualiza ir ve affiche
        afficher montre montre-moi montrer ouvre ouvrir lister énumère voir va mostra mostre mostre-me listagem
        exibir exiba veja abra mostrami mostrare elenca elencare elenco apri aprire vai visualizza vedi toon
        laat geef lijst openen bekijk bekijken ga visa öppna vis åbn pokaż otwórz покажи открой göster aç
        """,
    PLACE: """
        page pages article articles document documents doc docs documentation documentations guide guides
        guidebook guideline guidelines manual manuals handbook readme changelog roadmap milestone milestones
        wiki faq faqs tutorial tutorials toc contents overview summary chapter chapters section sections
        subsection folder folders directory directories subfolder repository repo repos url homepage backlog
        tracker kanban glossary minutes agenda transcript catalog catalogue inventory runbook playbook checklist
        calendar kalender calendario calendrier policy spec specs specification contributing license bookmark
        seite seiten artikel dokument dokumente doku dokus dokumentation anleitung anleitungen handbuch
        handbücher leitfaden liesmich übersicht übersichten verzeichnis inhaltsverzeichnis inhalt inhalte ordner
        unterordner ablage ablageort speicherort kapitel abschnitt abschnitte webseite startseite glossar
        protokoll protokolle archiv kontaktdaten fahrplan änderungsprotokoll página páginas artículo artículos
        documento documentos documentación guía guías manuales índice contenido contenidos resumen capítulo
        sección secciones carpeta carpetas directorio ubicación ruta repositorio inicio glosario acta actas
        descargas tutoriales dossier dossiers répertoire emplacement chapitre rubrique sommaire accueil
        glossaire compte-rendu comptes-rendus feuille tutoriel tutoriels documentação guia guias pasta pastas
        diretório localização seção seções sumário glossário ata atas pagina pagine articolo documenti
        documentazione guida manuale indice contenuto cartella cartelle percorso capitolo sezione sezioni
        sommario glossario verbale verbali elenco pagina's artikelen documenten documentatie handleiding
        handleidingen handboek inhoud inhoudsopgave overzicht map mappen locatie hoofdstuk sectie woordenlijst
        notulen
        """,
    THING: """
        log logs link links linked file files project projects issues tickets ticket tasks task tab menu sidebar
        navbar footer dashboard report reports screen notes members membership channel channels board template
        templates site website resources path paths location locations contact contacts archive download
        downloads table located stored reference datei dateien verweis verweise verlinkung reiter menü vorlage
        vorlagen bericht berichte mitglieder projekte projekt vorhaben aufgaben kanal kanäle kontakte steht
        liegt liegen befindet notizen archivo archivos fichero ficheros enlace enlaces sitio pantalla menú
        plantilla plantillas notas informe informes contacto contactos miembros proyectos proyecto tareas tarea
        tiques canal recursos encuentra guarda almacenan almacena tablero fichier fichiers lien liens sites
        écran tableau modèle modèles rapport rapports membres projets projet tâches tâche canaux ressources
        trouve arquivo arquivos ficheiro ficheiros painel quadro modelo modelos relatório relatórios membros
        projetos projeto tarefas tarefa fica ficam collegamento collegamenti sito bacheca modello modelli
        rapporto rapporti contatti membri progetti progetto attività trova bestand bestanden koppeling bord
        sjabloon sjablonen verslag verslagen leden projecten taken taak kanaal staat vind vinden index
        """,
    PROBLEM: """
        error errors fail fails failed failing failure failures crash crashes crashed crashing bug bugs cannot
        can't doesn't doesnt don't dont isn't aren't won't wont not never unable wrong wrongly duplicated slow
        slower slowly exception exceptions timeout timeouts stuck leak leaks freeze freezes hang hangs problem
        problems regression incorrect invalid unexpected duplicate duplicates ineffective inaccessible corrupt
        corrupted lost lose loses losing disappears stops stopped refused denied warning warnings poor impossible conflict
        conflicts fehler fehlermeldung fehlermeldungen fehlerhaft nicht kein keine keinen probleme absturz
        abstürze stürzt hängt friert falsch doppelt langsam ausnahme verzögerung scheint ständig verschwindet
        verloren verschwunden speicherleck unerwartet warnung falla fallo fallos errores no nunca problema
        problemas rompe cuelga congela bloquea lento lenta incorrecto inválido excepción fuga borró desaparece
        desaparecieron perdió mal advertencia erreur erreurs échoue échec plante plantage pas jamais problème
        problèmes lent lente bloqué invalide fuite disparaît erro erros falha falhas não trava travando
        travamento incorreto vazamento errore errori fallisce fallito non blocca errato perdita eccezione
        scompare fout fouten faalt werkt niet nooit probleem problemen crasht traag hangt lek verdwijnt mislukt
        waarschuwing fel ошибка ошибки błąd hata
        """,
    GONE: """
        missing broken dead 404 404s 404'ing blank outdated moved fehlt fehlen fehlend fehlende fehlender kaputt
        defekt roto rotos falta faltan perdida perdido manquant manquante manque cassé mort quebrado quebrada
        faltando rotto mancante manca ontbreekt ontbreken kapot
        """,
    EDIT: """
        add added adding adds update updates updated updating create created creating creates move moved moving
        remove removed rename renamed document documenting make makes put place publish compile collect refer
        mention write rewrite improve produce aktualisieren aktualisiert aktualisiere ergänzen ergänzt
        hinzufügen hinzugefügt erstellen erstellt schreiben verschieben verschoben eintragen umbenennen
        entfernen entfernt überarbeiten verlinken abbilden añadir añade añadido agregar agrega agregamos
        agregado actualizar actualiza actualización crear crea corregir corregido colocar mover quitar traducir
        traducción inclusión integración generar ajouter ajoute ajout créer crée corriger déplacer supprimer
        traduire traduction adicionar adiciona adicionado atualizar atualiza criar cria corrigir remover
        traduzir tradução aggiungere aggiunge aggiunta aggiornare aggiorna aggiornamento creare correggere
        spostare rimuovere tradurre toevoegen toegevoegd bijwerken bijgewerkt aanmaken maak verplaatsen
        verwijderen vertalen vertaling
        """,
    CHANGE: """
        feat feature features support supports allow allows enable enables disable implement implements improve
        improves improving preserve preserving maintain maintaining rewriting handle handling ensure ensures
        performance speed latency behaviour behavior consistent consistently consistency permission permissions
        validation refactor optimize optimise rebuild rebuilding reindexing require requires integration
        integrate retry clarify takes long unterstützen unterstützt unterstützung erlauben ermöglichen verhalten
        umbauen umstellen einbauen verbessern leistung geschwindigkeit berechtigung berechtigungen anmeldung
        einführen dauert dauern lange soportar soporta soporte permitir permite habilitar habilita
        comportamiento rendimiento permisos mejorar integrar tarda supporter permettre permet activer améliorer
        intégrer comportement suportar suporte melhorar desempenho permissões comportamento demora supportare
        supporto consentire migliorare prestazioni permessi integrare ondersteunen ondersteuning toestaan
        verbeteren prestaties rechten gedrag duurt
        """,
    CONDITION: """
        when if after while without because since during before wenn falls nachdem seit während ohne weil beim
        bevor nach cuando si después mientras sin porque tras desde al quand lorsque après sans pendant quando
        depois sem após dopo senza mentre wanneer als nadat zonder omdat tijdens wann cuándo
        """,
    ALL: """
        all every any anything everything alle allen aller alles sämtliche todos todas todo cada tous toutes
        tout tutti tutte tutto ogni allemaal
        """,
    INSIDE: """
        in inside under within below of on unter innerhalb im vom von zu en dentro bajo de del dans sous du da
        do na no em sob nel nella sotto di della onder binnen van over
        """,
}
EXISTENCE: Final = (
    "is there", "are there", "do we have", "do you have", "have we got", "any ", "gibt es", "habt ihr", "haben wir",
    "hay ", "existe ", "existen ", "tenemos ", "y a-t-il", "il y a", "existe-t-il", "avons-nous", "há ", "temos ",
    "c'è", "ci sono", "abbiamo", "is er", "zijn er", "hebben we",
)  # fmt: skip
"""Beginnings of questions whether something exists."""
UNSPACED: Final = {
    "哪里": WHERE, "哪儿": WHERE, "在哪": WHERE, "どこ": WHERE, "어디": WHERE, "ที่ไหน": WHERE,
    "列表": LIST, "列出": LIST, "打开": LIST, "一覧": LIST, "開いて": LIST, "목록": LIST, "显示所有": LIST,
    "文档": PLACE, "目录": PLACE, "页面": PLACE, "文件夹": PLACE, "ページ": PLACE, "フォルダ": PLACE, "문서": PLACE,
    "为什么": HOW, "为何": HOW, "怎么": HOW, "如何": HOW, "区别": HOW, "なぜ": HOW, "どうやって": HOW, "方法": HOW,
    "違い": HOW, "왜": HOW, "어떻게": HOW, "ทำไม": HOW, "อย่างไร": HOW,
    "错误": PROBLEM, "报错": PROBLEM, "失败": PROBLEM, "不显示": PROBLEM, "エラー": PROBLEM, "できない": PROBLEM, "오류": PROBLEM,
}  # fmt: skip
"""The groups of words in scripts without spaces, which are searched for anywhere in the question."""
PLACE_ENDINGS: Final = (
    "anleitung", "anleitungen", "handbuch", "leitfaden", "übersicht", "verzeichnis", "dokumentation", "doku", "ordner",
    "seite", "seiten", "liste", "protokoll", "handleiding", "overzicht", "lijst",
    "pagina",
)  # fmt: skip
"""Endings of German and Dutch compounds."""
BEFORE_A_PLACE: Final = frozenset((
    "about", "on", "for", "zum", "zur", "zu", "über", "sobre", "acerca", "sur", "à", "su", "over", "enthält", "contient",
    "contiennent", "contiene", "contienen", "contém", "contêm", "bevat",
))  # fmt: skip
"""Words after which the name of a place may follow, beside those of `INSIDE`."""
_KINDS: Final = frozenset((
    "folder", "directory", "section", "page", "area", "ordner", "verzeichnis", "bereich", "seite", "carpeta", "directorio",
    "sección", "página", "dossier", "répertoire", "rubrique", "pasta", "diretório", "seção", "cartella", "sezione", "pagina",
    "map", "sectie",
))  # fmt: skip
BEFORE_A_NAME: Final = _KINDS | frozenset((
    "the", "our", "my", "a", "an", "der", "die", "das", "dem", "den", "des", "ein", "eine", "einem", "unser", "unsere", "el",
    "la", "los", "las", "un", "una", "nuestro", "le", "les", "il", "lo", "gli", "o", "os", "as", "de", "het", "een", "all",
    "alle", "todos", "todas", "tous", "toutes", "que", "qué", "cosa", "hay", "c'è", "contain",
))  # fmt: skip
"""Articles, kinds of places, and words such as `que`, `hay` and `contain`: no part of a name."""


def _by_word() -> dict[str, int]:
    found: dict[str, int] = {}
    for group, words in _GROUPS.items():
        for word in words.split():
            found[word] = found.get(word, 0) | group
    return found


WORDS: Final = MappingProxyType(_by_word())
"""The groups of each word, added up."""
